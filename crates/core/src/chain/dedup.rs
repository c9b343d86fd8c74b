//! Deduplication of chains by key.

use std::time::Duration;

use crate::limits::check_duration;
use crate::store::Error;

/// Deduplication: which existing chain with the same key replaces a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedup {
    /// The key; chains with the same key are duplicates.
    pub key: String,
    /// Whether closed chains count.
    pub scope: DedupScope,
    /// If set, only chains that were started within this duration count.
    pub within: Option<Duration>,
}

/// Which chains prevent a new one with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupScope {
    /// Open chains only.
    Open,
    /// Closed chains too, as long as their record is kept.
    Any,
}

impl Dedup {
    /// An open chain with this key replaces a new one.
    pub fn open(key: impl Into<String>) -> Self {
        Self { key: key.into(), scope: DedupScope::Open, within: None }
    }

    /// An open chain, or a closed one whose record is kept, replaces a new one.
    pub fn any(key: impl Into<String>) -> Self {
        Self { key: key.into(), scope: DedupScope::Any, within: None }
    }

    /// Limits this to chains that were started within `window`.
    pub fn within(self, window: Duration) -> Self {
        Self { within: Some(window), ..self }
    }

    /// Checks the length of the key, which is stored as it is, and the window.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the rule that it violates.
    pub fn check(&self) -> Result<(), Error> {
        if (1..=256).contains(&self.key.len()) && !self.key.contains('\0') {
            return check_duration("the window of a deduplication key", self.within.unwrap_or_default());
        }
        Err(Error::Invalid("a deduplication key has 1 to 256 bytes and no zero byte".into()))
    }
}

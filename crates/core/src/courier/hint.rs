//! A hint: where it is counted how many have yet to look for announced jobs.

use std::fmt;
use std::str::FromStr;

use uuid::{Uuid, Version};

/// The identity of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hint(Uuid);

impl Hint {
    /// A new one.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Whether Tidemill made it, and what it is about is therefore the name of a queue: other programs make
    /// random ones.
    pub fn is_ours(&self) -> bool {
        self.0.get_version() == Some(Version::SortRand)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.hyphenated())
    }
}

/// Text that is no hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a hint")]
pub struct NotAHint;

impl FromStr for Hint {
    type Err = NotAHint;
    /// Reads a UUID with its hyphens, and no other of the forms it may have.
    fn from_str(text: &str) -> Result<Self, NotAHint> {
        let plain = text.len() == uuid::fmt::Hyphenated::LENGTH;
        Uuid::parse_str(text).ok().filter(|_| plain).map(Self).ok_or(NotAHint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_and_knows_its_own_kind() {
        let own = Hint::generate();
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!(own.is_ours());
        assert!(!"550e8400-e29b-41d4-a716-446655440000".parse::<Hint>().unwrap().is_ours());
        for bad in ["", "mail", "550e8400e29b41d4a716446655440000", "{550e8400-e29b-41d4-a716-446655440000}"]
        {
            assert_eq!(bad.parse::<Hint>(), Err(NotAHint), "{bad}");
        }
    }
}

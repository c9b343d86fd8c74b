//! The identity of a commit.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Tells two commits of a run apart that end at the same position.
///
/// A store that loses its last writes, as after a failover to an asynchronous replica, lets another worker commit at a
/// position that was committed before. The worker draws the id, not the store: a store that lost writes could repeat its
/// own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(u64);

impl CommitId {
    /// A new random id.
    pub fn generate() -> Self {
        // Positive in a column of 64 signed bits.
        Self(fastrand::u64(1..=i64::MAX.cast_unsigned()))
    }

    /// The id with this number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The id as a number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

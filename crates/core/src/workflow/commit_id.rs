//! The id of a commit.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Distinguishes two commits of a run that end at the same position.
///
/// A store that loses its last writes, for example after a failover to an asynchronous replica,
/// lets another worker commit at a position that was committed before. The worker generates the id,
/// because a store that lost writes could repeat its own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(u64);

impl CommitId {
    /// A new random id.
    pub fn generate() -> Self {
        // It must be positive in a signed 64-bit column.
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

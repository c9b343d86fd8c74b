//! Limits on input.

use std::time::Duration;

use crate::store::Error;

/// The longest delay of a scheduled job. A longer one is a mistake in the unit.
pub const MAX_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The longest duration of a timeout, a kept result or a lease. Clients reject longer ones.
/// Envelopes and stores shorten them, because other programs write there too.
pub const MAX_DURATION: Duration = MAX_DELAY;

/// Rejects a duration beyond [`MAX_DURATION`]. `what` names it in the error.
pub fn check_duration(what: &str, duration: Duration) -> Result<(), Error> {
    if duration <= MAX_DURATION {
        return Ok(());
    }
    Err(Error::Invalid(format!("{what} must not be longer than 100 years")))
}

/// The largest number of jobs in one atomic enqueue. Larger bulks are split.
pub const MAX_BATCH_JOBS: usize = 1_000;

/// The approximate number of envelope bytes in one atomic enqueue; a single job may be larger.
/// Larger bulks are split, because the server does nothing else meanwhile.
pub const MAX_BATCH_BYTES: usize = 256 << 10;

/// The largest number of chains that one job can wait for.
pub const MAX_BLOCKERS: usize = 1_000;

/// Limits that users can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest payload, in bytes of JSON.
    pub payload: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload: 1 << 20 }
    }
}

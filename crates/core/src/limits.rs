//! Limits on what comes from outside.

use std::time::Duration;

use crate::store::Error;

/// The farthest a job can be scheduled: beyond it lies a mistake in a unit, not a plan.
pub const MAX_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The longest duration a job, a kept result or a lease can have. Clients reject longer ones; envelopes and stores, which
/// other programs write into as well, shorten them.
pub const MAX_DURATION: Duration = MAX_DELAY;

/// Rejects a duration beyond [`MAX_DURATION`]. `what` names it in the error.
pub fn check_duration(what: &str, duration: Duration) -> Result<(), Error> {
    if duration <= MAX_DURATION {
        return Ok(());
    }
    Err(Error::Invalid(format!("{what} must not be longer than 100 years")))
}

/// The most jobs one enqueue makes in one atomic effect. Larger bulks are split.
pub const MAX_BATCH_JOBS: usize = 1_000;

/// How many bytes of envelopes one atomic effect writes, about; one job may be larger. Larger bulks are split: a server does
/// nothing else meanwhile.
pub const MAX_BATCH_BYTES: usize = 256 << 10;

/// How many chains one job can wait for.
pub const MAX_BLOCKERS: usize = 1_000;

/// Limits a user may change.
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

//! Limits on what comes from outside.

use std::time::Duration;

/// The farthest a job can be scheduled: beyond it lies a mistake in a unit, not a plan.
pub const MAX_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The most jobs one enqueue makes in one atomic effect. Larger bulks are split.
pub const MAX_BATCH: usize = 1_000;

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

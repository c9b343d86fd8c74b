//! What every worker does for the store beside running jobs. Safe everywhere at once, and decided from what is
//! in the store alone: a worker that does not know a kind does not harm its jobs.

mod promoter;
mod pruner;
mod reaper;
mod rescuer;

pub(crate) use promoter::Promoter;
pub(crate) use pruner::Pruner;
pub(crate) use reaper::Reaper;
pub(crate) use rescuer::LeaseRescuer;

use std::time::Duration;

/// `duration` plus or minus a tenth, so that a fleet that was started at once does not act at once.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.9 + 0.2 * fastrand::f64())
}

//! The maintenance that every worker performs for the store. It is safe to run in all workers at
//! once. It decides from the store's content alone, so it does not depend on the handlers of this
//! process.

mod promoter;
mod pruner;
mod reaper;
mod rescuer;

pub(crate) use promoter::Promoter;
pub(crate) use pruner::Pruner;
pub(crate) use reaper::Reaper;
pub(crate) use rescuer::LeaseRescuer;

use std::time::Duration;

/// `duration` plus or minus 10 %, so that workers that were started together do not act together.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.9 + 0.2 * fastrand::f64())
}

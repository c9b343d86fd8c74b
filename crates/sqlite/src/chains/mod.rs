//! Chains: jobs that continue one another, wait for one another, and are deduplicated. Everything
//! happens under the one write lock. So a closing chain either finds a waiting job, or has left its
//! notice before the job looks.

mod blockers;
mod close;
mod continue_chain;
mod dedup;

pub(crate) use blockers::{ChainBlockers, stop_waiting, waits_for};
pub(crate) use close::{IS_AWAITED, close, close_removed};
pub(crate) use continue_chain::continue_chain;
pub(crate) use dedup::find_by_key;

//! The store contract: the operations that engines may use.
//!
//! Each verb is one atomic operation with a parameter struct. Its documentation says what may run
//! concurrently, what a repeated call does, and which errors it returns. Due times and leases are
//! compared with the store's clock only. `testkit::conformance` tests this contract: a store is
//! correct if it passes that suite.
//!
//! The verbs are grouped by noun: [`Jobs`], [`Queues`], [`Runs`], [`Fleet`], [`Inspect`]. A store
//! implements verb `claim` of `Jobs` in its file `jobs/claim.rs`, and the others likewise.

mod decorator;
mod error;
pub mod fleet;
mod inspect;
mod jobs;
mod queues;
pub mod reserved_ids;
pub mod runs;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use decorator::Decorator;
pub use error::{BoxError, Error};
pub use fleet::Fleet;
pub use inspect::{
    COUNT_CAP, Checkup, Durability, Finding, Inspect, JobInfo, JobRecord, ListJobsParams, Page, Severity,
};
pub use jobs::{
    Cancelled, ClaimParams, Claimed, ClockStep, CompleteParams, Completed, Deleted, Due, EnqueueParams,
    Enqueued, ExpiredLease, ExpiredLeases, ExtendParams, Extended, Fence, Interrupt, Jobs, ListExpiredParams,
    NewJob, PromoteParams, Promoted, Pruned, RecoverParams, RedriveItem, RedriveParams, SettleParams,
    StartParams, Verdict,
};
pub use queues::{QueueInfo, Queues};
pub use runs::Runs;

use crate::clock::Clock;
pub use crate::wake::{Bus, Wake, WakeStream};
use crate::workflow::RunId;

/// A store of jobs, runs and fleet workers: one trait per noun, and what is common to all.
///
/// Every method may be called by any number of tasks and processes concurrently. Every verb may be
/// repeated after [`Error::Unanswered`], except [`enqueue`](Jobs::enqueue), which the store repeats
/// itself.
///
/// Method names are unique over all traits. On a `dyn Store` all of them can be called without an
/// import; on a concrete store the trait of the verb must be in scope.
#[async_trait]
pub trait Store: Jobs + Queues + Runs + Fleet + Inspect + fmt::Debug + 'static {
    /// Whether two runs are in one shard, so that a commit of one can deliver to the other.
    fn same_shard(&self, one: &RunId, other: &RunId) -> bool {
        let _ = (one, other);
        true
    }

    /// Subscribes to wake-ups of all tasks and processes. They are hints: any may be lost, repeated
    /// or wrong.
    ///
    /// Every end of a job that a caller may wait for is announced by [`Wake::Finished`], or by
    /// [`Wake::Everything`] if there are many. A call that is repeated after a lost answer
    /// announces again, whatever its verdict. The stream never ends; it resumes after an outage of
    /// the store.
    fn subscribe(&self) -> WakeStream {
        self.bus().subscribe()
    }

    /// The bus that dispatches this store's wake-ups in this process.
    fn bus(&self) -> &Arc<Bus>;

    /// Waits briefly until all published wake-ups have left this process. For programs that are
    /// about to end.
    async fn flush(&self) {
        self.bus().flush().await;
    }

    /// The concrete store, for features of its driver such as the user's transactions.
    fn as_any(&self) -> &dyn std::any::Any;

    /// The store's clock.
    fn clock(&self) -> &dyn Clock;

    /// What an acknowledged enqueue survives.
    fn durability(&self) -> Durability;

    /// The number of commands (statements, scripts) that this process has sent to the store.
    fn commands(&self) -> u64;
}

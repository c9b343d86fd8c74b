//! The definition of a store: what every implementation of [`Store`](tidemill_core::Store) must do,
//! one sentence per case.
//!
//! ```text
//! async fn open() -> StoreUnderTest { … }
//! tidemill_testkit::conformance!(open);
//! ```
//!
//! creates one test per case. Cases assert only generous upper bounds on time, so that they pass on
//! a busy machine. A sharded store must satisfy everything except a total order.

// A case fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
pub mod harness;
mod model;
mod run;
mod store_under_test;

pub use harness::{LONG, QueueHarness, SHORT, until};
pub use run::{count, run};
pub use store_under_test::StoreUnderTest;

macro_rules! topics {
    ($($topic:ident),* $(,)?) => {
        // The name of a case is its documentation.
        $(#[allow(missing_docs)] pub mod $topic;)*
    };
}

topics!(
    enqueue,
    claim,
    recover,
    lease,
    settle,
    retry,
    rescue,
    cancel,
    dead_letters,
    pause,
    promote,
    inspect,
    wake,
    prune,
    concurrency,
    cleanup,
    history,
    chains,
    blockers,
    dedup,
    complete,
    delete,
    runs,
    run_ends,
    fleet_workers,
    worker_choice,
    sessions,
    lease_waiters,
    rejected_workers,
    run_limits,
    run_jobs,
);

//! The definition of a store: what every implementation of [`Store`](tidemill_core::Store) must do, one case
//! per sentence.
//!
//! ```text
//! async fn open() -> Subject { … }
//! tidemill_testkit::conformance!(open);
//! ```
//!
//! makes one test per case. Cases assert no upper bound on time but a generous one around waits, so that a busy
//! machine does not fail them; a sharded store is held to everything but a total order.

// A case fails by panicking; that is what its `expect`s are for.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod model;
mod run;
pub mod scene;
mod subject;

pub use run::{count, run};
pub use scene::{LONG, SHORT, Scene, until};
pub use subject::Subject;

macro_rules! themes {
    ($($theme:ident),* $(,)?) => {
        // The name of a case is its documentation.
        $(#[allow(missing_docs)] pub mod $theme;)*
    };
}

themes!(
    enqueue,
    claim,
    recover,
    lease,
    settle,
    retry,
    rescue,
    cancel,
    letters,
    pause,
    promote,
    inspect,
    wake,
    prune,
    concurrency,
    hygiene,
    history,
    chains,
    blockers,
    dedup,
    complete,
    delete,
    runs,
    run_ends,
    members,
    choice,
    sessions,
    line,
    refusals,
    run_bounds,
    run_jobs,
);

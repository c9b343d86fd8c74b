//! Durable workflows: plain async functions that survive the process they run in.
//!
//! A workflow is polled on an executor of its own, and nothing but what its [`Ctx`] gives may wake it. So what it
//! does depends on nothing but the events in its journal, and feeding these again rebuilds it, in another process
//! or years later. A [`Machine`] takes events and gives commands; it knows no store and no runtime.
//!
//! Around it, [`RunWorkflows`] teaches a worker to run workflows and their activities, and [`StartWorkflows`] a client
//! to start runs and to speak to them.
//!
//! ```
//! use std::time::Duration;
//! use tidemill_workflow::{Activity, Ctx, Signal, Workflow, WorkflowError, select};
//!
//! const CHARGE: Activity<u64, String> = Activity::new("charge");
//! const APPROVE: Signal<bool> = Signal::new("approve");
//! const ORDER: Workflow<u64, String> = Workflow::new("order").version("1.0.0");
//!
//! async fn order(ctx: Ctx, amount: u64) -> Result<String, WorkflowError> {
//!     let receipt = ctx.activity(&CHARGE, amount).timeout(Duration::from_secs(30)).await?;
//!     select! {
//!         approved = ctx.signals(&APPROVE).recv() => if !approved? { return Err(WorkflowError::failed("refused")) },
//!         _ = ctx.sleep(Duration::from_secs(86_400)) => return Err(WorkflowError::failed("nobody answered")),
//!     }
//!     Ok(receipt)
//! }
//! ```

mod client;
mod ctx;
mod definition;
mod dice;
mod ending;
mod error;
mod foreign;
mod halt;
mod host;
mod join;
mod machine;
mod program;
mod saga;
mod select;
mod state;
pub mod testing;
mod wire;

pub use client::{Diagnosis, OnConflict, RunError, RunHandle, Start, StartWorkflows, Why};
pub use ctx::{
    ActivityCall, CancelledFuture, ChildCall, ChildHandle, Ctx, DetachedChild, JoinHandle, LocalCall, Recv,
    RecvRequest, Request, SendSignal, Signals, Sleep, StartedChild, Updates,
};
pub use definition::{ACTIVITIES, Activity, Query, Signal, Update, Workflow};
pub use ending::WorkflowError;
pub use error::{ActivityError, Cancelled, ChildError, QueryError, SignalError, TooLarge};
pub use foreign::{Foreign, Trace};
pub use halt::{Divergence, Halt};
pub use host::{ActivityFn, RunWorkflows};
pub use join::JoinAll;
pub use machine::{Advance, LocalTask, Machine, Waiting, diagnose};
pub use program::{Program, Programs};
pub use saga::{RollbackFailed, Saga};
pub use tidemill_core::workflow::{ParentClose, RetryPolicy, RunId};

/// What the macros expand to. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use futures_util::future::maybe_done;

    pub use crate::select::{Either, Losers};
}

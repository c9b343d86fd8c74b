//! Durable workflows: plain async functions that survive the process they run in.
//!
//! A workflow is polled on its own executor, and only futures of its [`Ctx`] may wake it. Its
//! behaviour therefore depends only on the events in its journal. Replaying these events rebuilds
//! it, in another process or years later. A [`Replayer`] takes events and returns commands; it
//! knows no store and no runtime.
//!
//! [`RunWorkflows`] lets a worker run workflows and their activities. [`StartWorkflows`] lets a
//! client start runs and send them messages.
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

mod blocked;
mod client;
mod ctx;
mod definition;
mod error;
mod foreign_await;
mod join;
mod program;
mod replay;
mod rng;
mod saga;
mod select;
mod state;
mod task;
pub mod testing;

pub use blocked::{Blocked, Divergence};
pub use client::{Diagnosis, OnConflict, RunError, RunHandle, RunProgress, StartRun, StartWorkflows};
pub use ctx::{
    ActivityCall, CancelledFuture, ChildCall, ChildHandle, Ctx, DetachedChild, JoinHandle, LocalCall,
    RecvSignal, RecvUpdate, SendSignal, Signals, Sleep, StartedChild, UpdateRequest, Updates,
};
pub use definition::{Activity, DEFAULT_ACTIVITY_QUEUE, Query, Signal, Update, Workflow};
pub use error::{ActivityError, ChildError, QueryError, RunCancelled, SignalError, TooLarge, WorkflowError};
pub use foreign_await::{Detection, ForeignAwait};
pub use join::JoinAll;
pub use program::{Program, Programs};
pub use replay::{Advance, LocalActivity, OpenWait, Replayer, diagnose};
pub use saga::{RollbackFailed, Saga};
pub use task::{ActivityFn, RunWorkflows};
pub use tidemill_core::workflow::{ParentClose, RetryPolicy, RunId};

/// Used by the expansion of the macros. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use futures_util::future::maybe_done;

    pub use crate::select::{Either, Unselected};
}

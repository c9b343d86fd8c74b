//! Background jobs and durable workflows on the store you already have: a SQLite file, Redis or
//! Valkey, or PostgreSQL.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidemill::{Fail, Job, Worker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Greet { name: String }
//! impl Job for Greet { const KIND: &'static str = "greet"; type Output = String; }
//!
//! async fn greet(job: Greet) -> Result<String, Fail> {
//!     Ok(format!("Hello, {}!", job.name))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = tidemill::connect("sqlite::memory:").await?;     // or sqlite:app.db, redis://…, postgres://…
//! let handle = client.job(Greet { name: "tide".into() }).enqueue().await?;
//! Worker::builder(&client).handle(greet).queue("default", 10).drain().await?;
//! assert_eq!(handle.wait().await?, "Hello, tide!");
//! # Ok(())
//! # }
//! ```
//!
//! A workflow is a plain async function that outlives its process. Its journal records every step,
//! and another worker continues from the journal.
//!
//! ```
//! use tidemill::prelude::*;
//! use tidemill::{Activity, Ctx, Signal, Workflow, WorkflowError, days, secs};
//!
//! const CHARGE: Activity<u64, String> = Activity::new("charge");
//! const REFUND: Activity<String, ()> = Activity::new("refund");
//! const APPROVE: Signal<bool> = Signal::new("approve");
//! const ORDER: Workflow<u64, String> = Workflow::new("order").version("1.0.0");
//!
//! async fn order(ctx: Ctx, amount: u64) -> Result<String, WorkflowError> {
//!     let receipt = ctx.activity(&CHARGE, amount).timeout(secs(30)).await?;
//!     tidemill::select! {                                     // biased; the others are cancelled
//!         approved = ctx.signals(&APPROVE).recv() => if approved? { return Ok(receipt) },
//!         _ = ctx.sleep(days(1)) => {},
//!         _ = ctx.cancelled() => {},
//!     }
//!     ctx.shielded().activity(&REFUND, receipt).await?;
//!     Err(WorkflowError::failed("nobody approved it"))
//! }
//!
//! async fn charge(amount: u64) -> Result<String, Fail> {
//!     Ok(format!("receipt for {amount}"))
//! }
//!
//! async fn refund(_receipt: String) -> Result<(), Fail> {
//!     Ok(())
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = tidemill::connect("sqlite::memory:").await?;
//! let worker = Worker::builder(&client).workflow(&ORDER, order).activity(&CHARGE, charge).activity(&REFUND, refund);
//! let run = client.workflow(&ORDER, 99).key("order-7").start().await?;
//! run.signal(&APPROVE, &true).await?;
//! worker.run_until(async { assert_eq!(run.wait().await.unwrap(), "receipt for 99") }).await?;
//! # Ok(())
//! # }
//! ```

mod connect;
mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
mod shutdown;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "sqlite")]
pub mod testing;
pub mod transaction;
pub mod wake;

pub use connect::{ClientBuilder, connect};
pub use shutdown::shutdown_signal;
pub use tidemill_core::client::{
    BulkError, DeadLetters, Enqueue, EnqueueBulk, PageParams, QueueHandle, WaitError,
};
pub use tidemill_core::job::JobState;
pub use tidemill_core::store::{Durability, JobInfo, Page, QueueInfo};
pub use tidemill_core::{
    Backoff, Chain, Client, Clock, DeadLetter, DeadLetterFilter, DeathReason, Dedup, Envelope, Error,
    Guarantee, Job, JobHandle, JobId, Kind, Limits, Namespace, Next, Outcome, Queue, QueueName, Timestamp,
    chain,
};
// For the command line, the torture tests and the benchmarks of this workspace.
#[doc(hidden)]
pub use tidemill_core::{baseline, dead_letter, envelope, job, limits, name, settle};
pub use tidemill_worker::{
    BuildError, Event, EventKind, Extract, Fail, JobContext, Report, State, Stats, Worker, WorkerBuilder,
    WorkerError,
};
pub use tidemill_workflow::{
    Activity, ActivityError, Ctx, Query, RunError, RunHandle, RunId, Signal, StartRun, Update, Workflow,
    WorkflowError, join, select,
};

/// The traits that add methods to [`Client`], [`Enqueue`] and [`WorkerBuilder`], and the types that
/// nearly every program uses.
///
/// ```
/// use tidemill::prelude::*;
/// ```
pub mod prelude {
    #[cfg(feature = "fleet")]
    pub use tidemill_fleet::browser::UseBrowsers;
    pub use tidemill_workflow::{RunWorkflows, StartWorkflows};

    pub use crate::transaction::{CompleteIn, EnqueueIn};
    pub use crate::{Client, Fail, Job, JobContext, State, Worker};
}

/// The store behind a [`Client`], and the results of operations on it.
pub mod store {
    pub use tidemill_core::HolderId;
    pub use tidemill_core::client::Purged;
    pub use tidemill_core::name::InvalidName;
    pub use tidemill_core::store::*;
}

/// What a running [`Worker`] counts, and what a job's handler sees of the chains it waited for.
pub mod worker {
    pub use tidemill_worker::{Blockers, JobCounts, QueueCounts, Unfinished};
}

/// Durable workflows: the context of workflow code, the worker side, and test helpers.
pub mod workflow {
    pub use tidemill_core::store::Page;
    pub use tidemill_core::store::runs::{ListRunsParams, RunInfo};
    pub use tidemill_core::workflow::*;
    pub use tidemill_workflow::{
        Activity, ActivityCall, ActivityError, ActivityFn, Blocked, CancelledFuture, ChildCall, ChildError,
        ChildHandle, Ctx, DEFAULT_ACTIVITY_QUEUE, DetachedChild, Diagnosis, Divergence, ForeignAwait,
        JoinAll, JoinHandle, LocalCall, OnConflict, OpenWait, Program, Programs, Query, QueryError,
        RecvSignal, RecvUpdate, Replayer, RollbackFailed, RunCancelled, RunError, RunHandle, RunProgress,
        RunWorkflows, Saga, SendSignal, Signal, SignalError, Signals, Sleep, StartRun, StartWorkflows,
        StartedChild, TooLarge, Update, UpdateRequest, Updates, Workflow, WorkflowError, join, select,
        testing,
    };
}

/// The fleet: job workers and browsers, and the sessions on browsers. With the feature `fleet` also
/// the agent that runs browsers and the gateway that leases them.
pub mod fleet {
    pub use tidemill_core::client::FleetHandle;
    pub use tidemill_core::fleet::*;
    pub use tidemill_core::store::fleet::*;
    #[cfg(feature = "fleet")]
    pub use tidemill_fleet::{agent, gateway};
}

/// Jobs that use a browser of the fleet: the handler argument [`Browser`](browser::Browser), and
/// ready-made jobs.
#[cfg(feature = "fleet")]
pub mod browser {
    pub use tidemill_fleet::browser::*;
}

/// Runs the code blocks of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Runs the code blocks of the guide as doctests.
#[cfg(all(doctest, feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

/// Runs the code blocks of the page on workflows as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/workflows.md")]
struct Workflows;

/// `n` seconds.
pub const fn secs(n: u64) -> std::time::Duration {
    std::time::Duration::from_secs(n)
}

/// `n` minutes.
pub const fn mins(n: u64) -> std::time::Duration {
    secs(n * 60)
}

/// `n` hours.
pub const fn hours(n: u64) -> std::time::Duration {
    mins(n * 60)
}

/// `n` days.
pub const fn days(n: u64) -> std::time::Duration {
    hours(n * 24)
}

//! The job worker: claims jobs, runs their handlers and settles them, on any store.
//!
//! A [`WorkerBuilder`] collects handlers, the state they share, and queues. A running [`Worker`]
//! consists of parts. Each part has one role, and the worker waits for each to end:
//!
//! - a **producer** per queue claims jobs into free slots,
//! - the **executor** runs them,
//! - the **completer** settles them in batches,
//! - the **heartbeat** extends the leases of all jobs that this worker holds,
//! - the **listener** receives wake-ups and makes the heartbeat check jobs that may be cancelled,
//! - the **registration** keeps the worker's entry in the fleet and receives drain orders,
//! - **maintenance** promotes, rescues, prunes and reaps, deciding only from the store's content.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidemill_core::{Client, Job};
//! use tidemill_worker::{Fail, JobContext, State, Worker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Greet { name: String }
//! impl Job for Greet { const KIND: &'static str = "greet"; type Output = String; }
//!
//! #[derive(Clone)]
//! struct Greeting(&'static str);
//!
//! async fn greet(job: Greet, State(greeting): State<Greeting>, cx: JobContext) -> Result<String, Fail> {
//!     Ok(format!("{}, {}, for the {}. time", greeting.0, job.name, cx.attempt()))
//! }
//!
//! # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let worker = Worker::builder(&client).state(Greeting("Hello")).handle(greet).queue("default", 10);
//! let report = worker.drain().await?;
//! println!("{} done", report.total.done);
//! # Ok(())
//! # }
//! ```
//!
//! No part waits for another part's store calls. Every call has a deadline, so a call without an
//! answer cannot stop the heartbeat.

mod attempt;
mod builder;
mod claim_tracker;
mod completer;
mod config;
mod deadline;
mod drain;
mod error;
mod event;
mod executor;
mod extension;
mod failure_backoff;
mod failure_log;
mod handler;
mod heartbeat;
mod leases;
mod listener;
mod maintenance;
mod producer;
mod queue_slots;
mod rechecks;
mod registration;
mod shared;
mod shutdown;
mod span;
mod stats;
mod unknown_kinds;
mod worker;

pub use builder::WorkerBuilder;
pub use error::{BuildError, WorkerError};
pub use event::{Event, EventKind};
pub use extension::Extension;
pub use handler::blockers::Blockers;
pub use handler::context::JobContext;
pub use handler::extract::{Extract, MissingState, State, StateMap};
pub use handler::fail::Fail;
pub use handler::{HandlerFn, IntoOutcome};
pub use stats::{JobCounts, QueueCounts, Report, Stats, Unfinished};
pub use worker::Worker;

//! The engine that runs jobs: claim, run, settle, on any store.
//!
//! A [`Worker`] is told what it can do (handlers and the state they need) and where (queues). Running, it is
//! a handful of parts, each with one role and an owner who waits for its end:
//!
//! - a **producer** per queue claims jobs into free slots,
//! - the **executor** runs them,
//! - the **completer** settles them in batches,
//! - the **heartbeat** keeps the leases of everything that is in this worker's hands,
//! - the **listener** receives wake-ups, and makes the heartbeat ask about cancelled jobs,
//! - the **roster** keeps the worker's entry in the fleet, and hears whether it is to go,
//! - **maintenance** promotes, rescues, prunes and reaps, deciding only from what is in the store.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidemill_core::{Job, Mill};
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
//! # async fn example(client: Mill) -> Result<(), Box<dyn std::error::Error>> {
//! let worker = Worker::new(&client).state(Greeting("Hello")).handle(greet).queue("default", 10);
//! let report = worker.drain().await?;
//! println!("{} done", report.total.done);
//! # Ok(())
//! # }
//! ```
//!
//! The parts never wait for one another's store calls, and every call has a deadline, so one that never
//! answers cannot stop the heartbeat.

mod assignment;
mod attempt;
mod batch;
mod blockers;
mod build;
mod card;
mod claims;
mod companion;
mod completer;
mod context;
mod deadline;
mod doubt;
mod drain;
mod engine;
mod event;
mod executor;
mod extension;
mod extract;
mod fail;
mod failure_log;
mod handler;
mod heartbeat;
mod lane;
mod leases;
mod listener;
mod maintenance;
mod outage;
mod outbox;
mod pace;
mod producer;
mod rechecks;
mod registry;
mod repeater;
mod roster;
mod shutdown;
mod station;
mod stats;
mod trip;
mod unknown_kinds;
mod upshot;
mod worker;

pub use blockers::Blockers;
pub use build::{BuildError, WorkerError};
pub use context::JobContext;
pub use engine::Engine;
pub use event::{Ending, Event};
pub use extension::Extension;
pub use extract::{Extract, MissingState, State, States};
pub use fail::Fail;
pub use handler::HandlerFn;
pub use stats::{Counts, LeftBehind, QueueCounts, Report, Stats};
pub use upshot::Returned;
pub use worker::Worker;

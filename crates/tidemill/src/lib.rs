//! Background jobs on the store you already have: a SQLite file, Redis or Valkey, or PostgreSQL.
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
//! let mill = tidemill::connect("sqlite::memory:").await?;     // or sqlite:app.db, redis://…, postgres://…
//! let handle = mill.job(Greet { name: "tide".into() }).enqueue().await?;
//! Worker::new(&mill).handle(greet).queue("default", 10).drain().await?;
//! assert_eq!(handle.wait().await?, "Hello, tide!");
//! # Ok(())
//! # }
//! ```

mod connect;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "sqlite")]
pub mod testing;
pub mod transaction;
mod wake;

pub use connect::{Connector, connect, connector};
pub use tidemill_core::bell::Pace;
pub use tidemill_core::client::{Bulk, Enqueue, WaitError};
pub use tidemill_core::courier::InProcess;
pub use tidemill_core::{
    Backoff, Chain, Clock, DeadLetter, Dedup, Delivery, Envelope, Error, Handle, Job, JobId, Kind, Limits,
    Mill, Namespace, Next, Queue, QueueName, Reason, Store, Timestamp, WorkerId, chain, dead, envelope,
    floor, job, limits, name, redrive, rescue, settle, store,
};
pub use tidemill_worker::{
    Blockers, BuildError, Counts, Ending, Engine, Event, Extract, Fail, JobContext, LeftBehind, QueueCounts,
    Report, State, Stats, Worker, WorkerError,
};
pub use transaction::{CompleteIn, InTransaction};
pub use wake::{IntoWakeUps, Listen, WakeUps};

/// What the README shows is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

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

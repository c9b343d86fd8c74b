//! The vocabulary of Tidemill: names, the envelope, the job state machine, the store contract and the typed
//! client. Everything is decided here; a store only makes decisions stick, and an engine only asks for them.
//!
//! This crate knows no runtime, no database and no HTTP.

pub mod backoff;
pub mod bell;
pub mod chain;
pub mod client;
pub mod clock;
pub mod clock_watch;
pub mod courier;
pub mod dead;
pub mod envelope;
pub mod fleet;
pub mod floor;
pub mod hub;
pub mod job;
pub mod lease;
pub mod limits;
pub mod name;
pub mod redrive;
pub mod rescue;
pub mod retry;
pub mod settle;
pub mod store;
pub mod transaction;
pub mod workflow;

pub use backoff::Backoff;
pub use chain::{Chain, Dedup, Next};
pub use client::{Handle, Job, Mill};
pub use clock::{Clock, Timestamp};
pub use dead::{DeadLetter, Reason};
pub use envelope::Envelope;
pub use lease::{Lease, Token};
pub use limits::Limits;
pub use name::{Delivery, JobId, Kind, Namespace, Queue, QueueName, WorkerId};
pub use settle::{Change, Outcome};
pub use store::{Error, Store};

//! Core of Tidemill: names, the envelope, the job state machine, the store contract and the typed
//! client.
//!
//! All decisions are made in this crate. A store applies them atomically, and an engine requests
//! them. The crate depends on no runtime, no database and no HTTP library.

pub mod backoff;
pub mod baseline;
pub mod chain;
pub mod client;
pub mod clock;
pub mod clock_monitor;
pub mod dead_letter;
pub mod envelope;
pub mod fleet;
pub mod job;
pub mod lease;
pub mod limits;
pub mod name;
pub mod retry;
pub mod settle;
pub mod store;
pub mod transaction;
pub mod wake;
pub mod workflow;

pub use backoff::Backoff;
pub use chain::{Chain, Dedup, Next};
pub use client::{Client, Job, JobHandle, PageParams, QueueHandle};
pub use clock::{Clock, Timestamp};
pub use dead_letter::redrive::DeadLetterFilter;
pub use dead_letter::{DeadLetter, DeathReason};
pub use envelope::Envelope;
pub use lease::{Lease, Token};
pub use limits::Limits;
pub use name::{Guarantee, HolderId, JobId, Kind, Namespace, Queue, QueueName};
pub use settle::{Change, Outcome};
pub use store::{Error, Store};

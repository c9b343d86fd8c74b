//! The PostgreSQL store.
//!
//! Jobs are rows in the tables of one schema. Every verb is one statement, and claims skip rows
//! that others have locked. Idle workers are woken by LISTEN/NOTIFY or another transport, with
//! slow polling as a fallback. Any number of processes can share a database.

mod baseline;
mod chains;
mod clock;
mod connection;
mod cursor;
mod error;
mod fleet;
mod functions;
mod inspect;
mod jobs;
mod migrate;
mod options;
mod queues;
mod runs;
mod sql;
mod store;
mod transaction;
mod wake;

pub use baseline::baselines;
pub use options::PostgresOptions;
#[cfg(feature = "sqlx")]
pub use sqlx;
pub(crate) use store::Inner;
pub use store::PostgresStore;
pub use tokio_postgres;
pub use transaction::{PendingWakes, Tx};

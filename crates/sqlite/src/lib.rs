//! The SQLite store: jobs, runs and the fleet in one SQLite file that several processes can share,
//! or in memory.
//!
//! The file may be the user's own and contain other tables; ours are named `tidemill_…`. Opening
//! the file creates them and switches it to a write-ahead log (WAL) for good. Nothing else in it
//! changes.
//!
//! All writes go through one thread. It runs all queued requests in one transaction and replies
//! after the commit, so that many callers share one sync to disk. Reads have a thread and a
//! connection of their own and never wait for the writer.
//!
//! Because the file may be the user's, jobs can be created and ended together with the user's own
//! data. This happens in a transaction on a connection of the user's ([`SqliteStore::enqueue_in`]),
//! or on the writer, where many callers share one sync to disk ([`SqliteStore::transact`],
//! [`SqliteStore::done`]).
//!
//! Beside `app.db` and SQLite's own `app.db-wal` and `app.db-shm` there is `app.db-reserve`, a file
//! of 8 MiB. It is deleted when the disk is full, so that running jobs can still be settled.

/// The text of the statement in a file below `sql/`. Statements of a verb and those with several
/// users have a file; a helper with one user is a constant beside it.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}

mod baseline;
mod chains;
mod clock;
mod connection;
mod error;
mod fleet;
mod inspect;
mod jobs;
mod migrate;
mod options;
mod queues;
mod row;
mod runs;
mod store;
mod transaction;
mod wake;

pub use baseline::baselines;
pub use clock::PausedClock;
pub use options::{Location, SqliteOptions, Synchronous};
/// The driver, in the version that connections for [`SqliteStore::enqueue_in`] must have.
pub use rusqlite;
pub use store::SqliteStore;
pub use transaction::TransactError;
pub use wake::PendingWakes;

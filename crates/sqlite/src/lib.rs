//! The embedded store: jobs, runs and the fleet in one SQLite file that any number of processes share, or in memory.
//!
//! The file may be the user's own, with any tables in it: ours are called `tidemill_…`. Opening it as a store makes
//! them, and switches the file to a write-ahead log (WAL) for good; nothing else of it is touched.
//!
//! All writing goes through one thread, which runs everything that is waiting in one transaction and answers
//! when it has committed, so that many callers share the price of one sync to disk. Reading has a thread and a
//! connection of its own and never waits for the writer.
//!
//! Because the file is the user's, jobs can be made and ended together with the user's own data: in a transaction on a
//! connection of the user's ([`SqliteStore::enqueue_in`]), or on the writer, where many share one sync to disk
//! ([`SqliteStore::transact`], [`SqliteStore::done`]).
//!
//! Beside `app.db` and SQLite's own `app.db-wal` and `app.db-shm` lies `app.db-reserve`, 8 MiB that are given
//! up when the disk is full, so that what runs can still be settled.

mod atomic;
mod batch;
mod call;
mod chains;
mod checkup;
mod clock;
mod connection;
mod error;
mod fleet;
mod floor;
mod inspect;
mod jobs;
mod line;
mod migration;
mod options;
mod promises;
mod reader;
mod reserve;
mod row;
mod runs;
mod savepoint;
mod store;
mod transaction;
mod wake;
mod writer;

pub use clock::PausedClock;
pub use floor::floors;
pub use options::{Location, Options, Synchronous};
pub use promises::Pending;
/// The driver, in the version that connections for [`SqliteStore::enqueue_in`] have to be of.
pub use rusqlite;
pub use store::SqliteStore;
pub use transaction::TransactError;

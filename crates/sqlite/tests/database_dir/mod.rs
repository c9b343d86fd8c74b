//! A directory with a database in it, and everything a test opens there.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;
use tidemill_core::{Error, Guarantee};
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tidemill_testkit::conformance::{QueueHarness, StoreUnderTest};

pub(crate) struct DatabaseDir {
    folder: TempDir,
}

impl DatabaseDir {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a directory") }
    }

    /// One with tables of the user's own in the file.
    pub(crate) fn with_orders() -> Self {
        let dir = Self::new();
        let tables = "CREATE TABLE orders (id INTEGER PRIMARY KEY); CREATE TABLE notes (text BLOB)";
        dir.raw().execute_batch(tables).expect("tables");
        dir
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    pub(crate) async fn try_open(&self) -> Result<SqliteStore, Error> {
        SqliteStore::open(SqliteOptions::file(self.path())).await
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        self.try_open().await.expect("a store")
    }

    /// A connection of our own, past the store.
    pub(crate) fn raw(&self) -> Connection {
        Connection::open(self.path()).expect("a connection")
    }
}

/// A queue of `store` and a worker on it.
pub(crate) fn scene(store: &SqliteStore) -> QueueHarness {
    scene_on(store, "jobs")
}

/// A queue of this name, and a worker on it.
pub(crate) fn scene_on(store: &SqliteStore, name: &str) -> QueueHarness {
    StoreUnderTest::new(Arc::new(store.clone()), ()).harness_on(name, Guarantee::AtLeastOnce)
}

/// How many orders the user has.
pub(crate) fn orders(dir: &DatabaseDir) -> i64 {
    dir.raw().query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).expect("a count")
}

//! The conformance suite on SQLite, in a file and in memory.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tidemill_core::Store;
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tidemill_testkit::conformance::StoreUnderTest;

/// All rows that a job, a lease, a run, a worker or a session could leave.
const TABLES: [&str; 15] = [
    "jobs",
    "waiting",
    "running",
    "records",
    "blocked",
    "blocks",
    "runs",
    "journal",
    "alarms",
    "run_seen",
    "run_keys",
    "run_attributes",
    "members",
    "sessions",
    "tickets",
];

async fn store(options: SqliteOptions) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(options).await.expect("a store"))
}

async fn in_a_file() -> StoreUnderTest {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("jobs.db");
    let (again, looked_at) = (path.clone(), path.clone());
    StoreUnderTest::new(store(SqliteOptions::file(path)).await, folder)
        .reopen(move || store(SqliteOptions::file(again.clone())))
        .leftovers(move || std::future::ready(rows_left(&looked_at)))
}

fn rows_left(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).expect("the file");
    let count = |table: &&str| {
        connection
            .query_row(&format!("SELECT count(*) FROM tidemill_{table}"), [], |row| row.get::<_, i64>(0))
            .expect("a count")
    };
    let left = TABLES.iter().map(|table| (table, count(table))).filter(|(_, count)| *count > 0);
    left.map(|(table, count)| format!("{count} rows in {table}")).collect()
}

async fn in_memory() -> StoreUnderTest {
    StoreUnderTest::new(store(SqliteOptions::memory()).await, ())
}

mod file {
    tidemill_testkit::conformance!(super::in_a_file);
}

mod memory {
    tidemill_testkit::conformance!(super::in_memory);
}

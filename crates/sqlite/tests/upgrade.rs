//! Files of older schema versions: they open, migrate, and their jobs work.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod database_dir;

use std::sync::Arc;

use database_dir::DatabaseDir;
use rusqlite::Connection;
use tidemill_testkit::upgrade::{self, Fixtures};

fn fixtures() -> Fixtures {
    Fixtures::new(env!("CARGO_MANIFEST_DIR"), "sql")
}

#[tokio::test]
async fn a_file_of_every_older_version_opens_and_its_jobs_work() {
    for (version, fixture) in fixtures().all() {
        println!("version {version}");
        let dir = DatabaseDir::new();
        dir.raw().execute_batch(&fixture).unwrap();
        upgrade::check(Arc::new(dir.open().await)).await;
        let fresh = DatabaseDir::new();
        drop(fresh.open().await);
        assert_eq!(schema(&dir.raw()), schema(&fresh.raw()), "a migration was changed, not appended");
    }
}

#[tokio::test]
async fn the_newest_version_has_a_fixture() {
    let dir = DatabaseDir::new();
    let store = Arc::new(dir.open().await);
    let version = "SELECT version FROM tidemill_schema";
    let version: u32 = dir.raw().query_row(version, [], |row| row.get(0)).unwrap();
    let version = version as usize;
    if fixtures().read(version).is_none() {
        upgrade::fill(store).await;
        let title = format!("-- A store of schema version {version}, filled by `testkit::upgrade::fill`.\n");
        fixtures().write(version, &(title + &dump(&dir.raw())));
    }
}

/// Tables and indexes, in one order.
fn schema(connection: &Connection) -> Vec<String> {
    texts(connection, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
}

/// The statements that make the same file.
fn dump(connection: &Connection) -> String {
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'tidemill%' ORDER BY name";
    let order = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name";
    let mut lines = texts(connection, order);
    for table in texts(connection, tables) {
        lines.extend(rows(connection, &table));
    }
    lines.iter().map(|line| format!("{line};\n")).collect()
}

fn rows(connection: &Connection, table: &str) -> Vec<String> {
    let columns = texts(connection, &format!("SELECT name FROM pragma_table_info('{table}')")).join(", ");
    let quoted = columns.split(", ").map(|column| format!("quote({column})")).collect::<Vec<_>>();
    let values = quoted.join(" || ', ' || ");
    let insert = format!("SELECT 'INSERT INTO {table} ({columns}) VALUES (' || {values} || ')' FROM {table}");
    texts(connection, &insert)
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(|text| text.unwrap()).collect()
}

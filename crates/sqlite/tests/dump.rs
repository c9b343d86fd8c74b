//! The rows that every verb leaves, compared with `tests/dumps/sqlite.txt`.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tidemill_core::Timestamp;
use tidemill_sqlite::{PausedClock, SqliteOptions, SqliteStore};
use tidemill_testkit::fixtures::{Dump, VerbRunner, run_every_verb};

/// When the paused clock starts. Far from the present, so that a dump contains exact times.
const START: Timestamp = Timestamp(1_600_000_000_000);

#[tokio::test]
async fn every_verb_leaves_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let clock = PausedClock::new(START);
    let options = SqliteOptions::file(&path).clock(Arc::new(clock.clone()));
    let store = Arc::new(SqliteStore::open(options).await.unwrap());
    run_every_verb(&VerbRunner::with_paused_clock(store, move |time| clock.advance(time))).await;
    let expected = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dumps/sqlite.txt");
    dump(&Connection::open(&path).unwrap()).assert_matches(Path::new(expected));
}

fn dump(connection: &Connection) -> Dump {
    let mut dump = Dump::default();
    let schema = texts(connection, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL");
    let one_line = |sql: &String| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    dump.add_sorted("schema", schema.iter().map(one_line));
    for table in texts(connection, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
        dump.add_sorted(&table, rows(connection, &table));
    }
    dump
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(|text| text.unwrap()).collect()
}

fn rows(connection: &Connection, table: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| {
        let columns = names.iter().enumerate();
        let shown = columns.map(|(index, name)| format!("{name}={}", show(row.get_ref(index).unwrap())));
        Ok(shown.collect::<Vec<_>>().join(" "))
    };
    statement.query_map([], row).unwrap().map(|row| row.unwrap()).collect()
}

fn show(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => format!("'{}'", Dump::show_bytes(text)),
        ValueRef::Blob(bytes) => format!("x'{}'", Dump::show_bytes(bytes)),
    }
}

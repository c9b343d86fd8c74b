//! The rows that every verb leaves and the schema's functions, compared with
//! `tests/dumps/postgres.txt`.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::path::Path;
use std::sync::Arc;

use tidemill_testkit::fixtures::{Dump, VerbRunner, run_every_verb};
use tidemill_testkit::servers::shared_postgres;
use world::{connect, query};

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_leaves_the_same_rows() {
    let url = shared_postgres().database().unwrap();
    run_every_verb(&VerbRunner::new(Arc::new(connect(&url).await))).await;
    let expected = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dumps/postgres.txt");
    dump(&url).await.assert_matches(Path::new(expected));
}

async fn dump(url: &str) -> Dump {
    let mut dump = Dump::default();
    dump.add_sorted("functions", functions(url).await);
    for table in texts(url, TABLES).await {
        let rows = query(url, &format!("SELECT * FROM tidemill.{table}")).await;
        let columns = query(url, &columns_of(&table)).await;
        let show = |row: &Vec<String>| {
            let shown = columns.iter().zip(row).map(|(column, value)| {
                let [name, r#type] = &column[..] else { unreachable!("two columns were selected") };
                format!("{name}={}", show(r#type, value))
            });
            shown.collect::<Vec<_>>().join(" ")
        };
        dump.add_sorted(&table, rows.iter().map(show).collect::<Vec<_>>());
    }
    dump
}

const TABLES: &str = "SELECT relname FROM pg_class
    WHERE relnamespace = 'tidemill'::regnamespace AND relkind = 'r' ORDER BY relname";

fn columns_of(table: &str) -> String {
    format!(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
         WHERE attrelid = 'tidemill.{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
}

/// Every function with its parameters, result and settings.
async fn functions(url: &str) -> Vec<String> {
    let signatures = "SELECT format('%s(%s) -> %s %s', proname, pg_get_function_arguments(oid),
            pg_get_function_result(oid), array_to_string(proconfig, ', '))
        FROM pg_proc WHERE pronamespace = 'tidemill'::regnamespace";
    texts(url, signatures).await
}

async fn texts(url: &str, sql: &str) -> Vec<String> {
    query(url, sql).await.into_iter().map(|mut row| row.remove(0)).collect()
}

fn show(r#type: &str, value: &str) -> String {
    match (r#type, value.strip_prefix("\\x")) {
        (r#type, _) if r#type.starts_with("timestamp") => "<timestamp>".to_owned(),
        ("bytea", Some(hex)) => format!("x'{}'", Dump::show_bytes(&from_hex(hex))),
        _ => value.to_owned(),
    }
}

fn from_hex(hex: &str) -> Vec<u8> {
    let pairs = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
    pairs.collect()
}

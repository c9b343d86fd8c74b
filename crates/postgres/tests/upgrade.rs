//! Databases of older schema versions: they open, migrate, and their jobs work.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::process::Command;
use std::sync::Arc;

use tidemill_testkit::servers::shared_postgres;
use tidemill_testkit::upgrade::{self, Fixtures};
use world::{connect, query};

fn fixtures() -> Fixtures {
    Fixtures::new(env!("CARGO_MANIFEST_DIR"), "sql")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_every_older_version_opens_and_its_jobs_work() {
    let fresh = shared_postgres().database().unwrap();
    drop(connect(&fresh).await);
    for (version, fixture) in fixtures().all() {
        println!("version {version}");
        let url = shared_postgres().database().unwrap();
        query(&url, &fixture).await;
        upgrade::check(Arc::new(connect(&url).await)).await;
        assert_eq!(schema(&url).await, schema(&fresh).await, "a migration was changed, not appended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_version_has_a_fixture() {
    let url = shared_postgres().database().unwrap();
    let store = Arc::new(connect(&url).await);
    let version = query(&url, "SELECT max(version) FROM tidemill.migrations").await[0][0].parse().unwrap();
    if fixtures().read(version).is_none() {
        upgrade::fill(store).await;
        let title = format!("-- A store of schema version {version}, filled by `testkit::upgrade::fill`.\n");
        fixtures().write(version, &(title + &dump(&url)));
    }
}

/// A restore gives row types other oids, and so does a replica that takes over.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_keeps_working_on_a_schema_that_was_restored_under_it() {
    let url = shared_postgres().database().unwrap();
    let store = Arc::new(connect(&url).await);
    upgrade::fill(store.clone()).await;
    let oid = "SELECT 'tidemill.run_row'::regtype::oid";
    let before = query(&url, oid).await;
    let restore = dump(&url);
    query(&url, "DROP SCHEMA tidemill CASCADE").await;
    query(&url, &restore).await;
    assert_ne!(query(&url, oid).await, before);
    upgrade::check(store).await;
}

/// Columns, constraints, indexes and signatures of functions, in one order.
async fn schema(url: &str) -> Vec<Vec<String>> {
    query(
        url,
        "SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, column_default, is_nullable)
             FROM information_schema.columns WHERE table_schema = 'tidemill' ORDER BY 1;
         SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
             WHERE connamespace = 'tidemill'::regnamespace ORDER BY 1;
         SELECT format('%s.%s %s %s', udt_name, attribute_name, ordinal_position, attribute_udt_name)
             FROM information_schema.attributes WHERE udt_schema = 'tidemill' ORDER BY 1;
         SELECT indexdef FROM pg_indexes WHERE schemaname = 'tidemill' ORDER BY 1;
         SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'tidemill'::regnamespace ORDER BY 1",
    )
    .await
}

/// The statements that make the same schema, without comments and settings of pg_dump's own session.
fn dump(url: &str) -> String {
    let args = ["--schema=tidemill", "--inserts", "--no-owner", url];
    let output = Command::new("pg_dump").args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let body = text.lines().skip_while(|line| !line.starts_with("CREATE SCHEMA"));
    let body = body.filter(|line| !(line.is_empty() || line.starts_with("--") || line.starts_with('\\')));
    // A function may call one that is created after it.
    let first = ["SET check_function_bodies = false;"];
    first.into_iter().chain(body).map(|line| format!("{line}\n")).collect()
}

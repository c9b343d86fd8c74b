//! A snapshot that is held for long keeps every dead row: scans must not pass them again and again.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{Inspect, Severity};
use tidemill_core::{Queue, QueueName};
use tidemill_testkit::conformance::{LONG, QueueHarness, SHORT, until};
use tidemill_testkit::servers::{Postgres, PostgresOptions};
use tokio_postgres::Client;
use world::{connect, query, session};

/// How many rows are dead.
const DEAD: usize = 200_000;

/// Makes waiting jobs due long ago.
const EARLIER: &str = "UPDATE tidemill.ready SET due = 5;
    UPDATE tidemill.jobs SET due = 5 WHERE seq IN (SELECT seq FROM tidemill.ready)";

/// A server that logs the plan of each statement, with the number of pages read.
fn server() -> Postgres {
    let settings = [
        "shared_preload_libraries=auto_explain",
        "auto_explain.log_min_duration=0",
        "auto_explain.log_analyze=on",
        "auto_explain.log_buffers=on",
        "auto_explain.log_timing=off",
        "auto_explain.log_nested_statements=on",
        "autovacuum=off",
    ];
    let settings = settings.map(str::to_owned).to_vec();
    Postgres::with(PostgresOptions { settings, ..PostgresOptions::default() }).unwrap()
}

/// How many pages each execution of the statement whose text begins like this has read, in order.
fn pages(server: &Postgres, statement: &str) -> Vec<u64> {
    let log = std::fs::read_to_string(server.directory().join("log")).unwrap();
    let runs = log.split("Query Text: ").skip(1).filter(|run| run.starts_with(statement));
    let buffers =
        runs.map(|run| run.lines().find(|line| line.trim_start().starts_with("Buffers: shared")).unwrap());
    let count = |word: &str| word.split_once('=').map_or(0, |(_, count)| count.parse::<u64>().unwrap());
    let sum = |line: &str| {
        let words =
            line.split_whitespace().filter(|word| word.starts_with("hit=") || word.starts_with("read="));
        words.map(count).sum()
    };
    buffers.map(sum).collect()
}

/// A store on a queue with many dead rows that the client's snapshot keeps.
async fn held_back(server: &Postgres) -> (String, QueueHarness, Client) {
    let url = server.database().unwrap();
    let scene = QueueHarness::new(Arc::new(connect(&url).await), queue());
    scene.store.resume(&scene.queue).await.unwrap();
    let holder = session(&url).await;
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    query(
        &url,
        &format!(
            "INSERT INTO tidemill.ready (queue, due, seq, id)
                 SELECT number, n, -n, 'dead' FROM tidemill.queues, generate_series(1, {DEAD}) AS n;
             INSERT INTO tidemill.leases (seq, until, queue, started, id, worker)
                 SELECT -n, n, number, true, 'dead', 'w' FROM tidemill.queues, generate_series(1, {DEAD}) AS n;
             DELETE FROM tidemill.ready; DELETE FROM tidemill.leases"
        ),
    )
    .await;
    (url, scene, holder)
}

fn queue() -> Queue {
    Queue::at_least_once(QueueName::new("jobs").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_pass_the_rows_that_a_held_snapshot_keeps_once() {
    let server = server();
    let (url, scene, _holder) = held_back(&server).await;
    for _ in 0..5 {
        scene.claim_nothing().await;
    }
    let read = pages(&server, "WITH open_queue AS");
    assert!(read[0] > 500, "the first look passes all of them: {read:?}");
    assert!(read[1..].iter().all(|pages| *pages < 50), "the others pass few: {read:?}");
    scene.enqueue_many(3).await;
    scene.claim(3).await;
    // A job that a slow transaction leaves before the mark is found by the next scan from the
    // start.
    scene.enqueue_many(1).await;
    query(&url, EARLIER).await;
    assert_eq!(scene.claim_with(1, 1, LONG).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_for_expired_leases_pass_the_rows_that_a_held_snapshot_keeps_once() {
    let server = server();
    let (url, scene, _holder) = held_back(&server).await;
    for _ in 0..5 {
        assert!(scene.all_expired(10).await.is_empty());
    }
    let read = pages(&server, "SELECT late");
    assert!(read[0] > 500, "the first look passes all of them: {read:?}");
    assert!(read[1..].iter().all(|pages| *pages < 50), "the others pass few: {read:?}");
    // Leases that expire from now on are found.
    let short = scene.clone().with_lease(SHORT);
    short.enqueue_many(2).await;
    short.claim(2).await;
    short.expire_and_rescue(2).await;
    // A lease that ends before the mark is found by the next scan from the start.
    scene.claim(1).await;
    query(&url, "UPDATE tidemill.leases SET until = 5").await;
    let found = async { while scene.all_expired(10).await.is_empty() {} };
    // That scan comes within a minute.
    tokio::time::timeout(Duration::from_secs(180), found).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_leaves_no_mark_behind_which_its_jobs_would_wait() {
    let server = server();
    let (url, scene, _holder) = held_back(&server).await;
    scene.enqueue_many(1).await;
    query(&url, EARLIER).await;
    scene.store.pause(&scene.queue).await.unwrap();
    for _ in 0..3 {
        scene.claim_nothing().await;
    }
    scene.store.resume(&scene.queue).await.unwrap();
    scene.claim(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_open_transactions_and_a_vacuum_that_does_not_run() {
    let server = server();
    let (_, scene, _holder) = held_back(&server).await;
    let finding = async |subject: &str| {
        let findings = scene.store.checkup().await.unwrap().findings;
        findings.into_iter().find(|finding| finding.subject == subject).unwrap()
    };
    let vacuum = finding("vacuum").await;
    assert_eq!(vacuum.severity, Severity::Warning);
    assert!(vacuum.message.contains("autovacuum is off"), "{}", vacuum.message);
    until("the open transaction to be some seconds old", || async {
        let message = finding("snapshots").await.message;
        let age =
            message.split_once("transaction is ").and_then(|(_, rest)| rest.split_once(" s old")).unwrap().0;
        (age.parse::<u64>().unwrap() > 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_a_replication_slot_that_is_far_behind() {
    let settings = ["wal_level=logical"].map(str::to_owned).to_vec();
    let server = Postgres::with(PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
    let url = server.database().unwrap();
    let store = connect(&url).await;
    let slots = async || {
        let findings = store.checkup().await.unwrap().findings;
        findings.into_iter().find(|finding| finding.subject == "replication slots").unwrap()
    };
    assert_eq!(slots().await.severity, Severity::Good);
    query(&url, "SELECT pg_create_logical_replication_slot('forgotten', 'test_decoding')").await;
    let found = slots().await;
    assert_eq!(found.severity, Severity::Good, "it has only just been made");
    assert!(found.message.contains("slot forgotten"), "{}", found.message);
    query(&url, "DO $$ BEGIN FOR n IN 1..100100 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
        .await;
    assert_eq!(slots().await.severity, Severity::Warning);
}

//! Through PgBouncer: everything works, and nothing is left on shared connections.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidemill_core::store::{Inspect, Queues, Severity};
use tidemill_core::wake::Wake;
use tidemill_core::{Outcome, Queue, QueueName, Store};
use tidemill_postgres::{PostgresOptions, PostgresStore};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::servers::{
    Pgbouncer, PgbouncerOptions, PoolMode, Postgres, PostgresOptions as ServerOptions,
};
use tokio_postgres::{Client, SimpleQueryMessage};
use world::{chain, query, session};

/// How many connections to the server the pool in transaction mode has: fewer than there are
/// clients.
const SIZE: usize = 3;

/// How many jobs each of the stores enqueues and runs.
const JOBS: usize = 60;

fn pooler(server: &Postgres, mode: PoolMode, settings: &[&str]) -> Pgbouncer {
    let size = if mode == PoolMode::Session { 60 } else { SIZE };
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    Pgbouncer::start(server, &PgbouncerOptions { mode, size, settings }).unwrap()
}

fn server() -> Postgres {
    let settings = ["log_statement=all", "logging_collector=off"].map(str::to_owned).to_vec();
    Postgres::with(ServerOptions { settings, ..ServerOptions::default() }).unwrap()
}

async fn open(url: &str) -> Arc<PostgresStore> {
    let options = PostgresOptions { connections: 4, ..PostgresOptions::parse(url).unwrap() };
    Arc::new(PostgresStore::connect(options).await.unwrap())
}

fn scene(store: &Arc<PostgresStore>) -> QueueHarness {
    QueueHarness::new(store.clone(), Queue::at_least_once(QueueName::new("jobs").unwrap()))
}

/// Enqueues jobs, claims as many and settles them. Some keep a record, some are enqueued in users'
/// transactions.
async fn work(store: &Arc<PostgresStore>) {
    let scene = scene(store);
    for round in 0..JOBS {
        match round % 3 {
            0 => drop(scene.enqueue_many(1).await),
            1 => drop(scene.enqueue(chain()).await),
            _ => {
                let tx = store.begin().await.unwrap();
                tx.batch_execute("SET LOCAL transaction_isolation = 'read committed'").await.unwrap();
                tx.enqueue(&scene.queue, &[chain()]).await.unwrap();
                let rows = tx.query_typed("SELECT count(*) FROM orders", &[]).await.unwrap();
                assert_eq!(rows[0].get::<_, i64>(0), 1);
                tx.commit().await.unwrap();
            }
        }
        let claimed = scene.claim_one().await;
        scene.extend(std::slice::from_ref(&claimed.lease)).await;
        scene.settle(&claimed, Outcome::Done("42".into())).await;
    }
}

/// The user's own application, on the same pool.
async fn neighbour(url: &str) {
    let client = session(url).await;
    for _ in 0..100 {
        let rows = client.simple_query("SELECT count(*) FROM orders").await.unwrap();
        assert!(rows.iter().any(|row| matches!(row, SimpleQueryMessage::Row(_))));
        tokio::task::yield_now().await;
    }
}

/// All state that could be left on a connection.
async fn state(client: &Client) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    // The language has settings of its own once it is loaded.
    client.batch_execute("DO $$ BEGIN END $$").await.unwrap();
    for statement in [
        "SHOW ALL",
        // A pooler that supports prepared statements keeps some under names of its own.
        "SELECT 'prepared', name FROM pg_prepared_statements WHERE name NOT LIKE 'PGBOUNCER%'",
        "SELECT 'listening', pg_listening_channels()",
        "SELECT 'locked', objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        "SELECT 'temporary', relname FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'",
    ] {
        for message in client.simple_query(statement).await.unwrap() {
            if let SimpleQueryMessage::Row(row) = message {
                state.insert(row.get(0).unwrap().to_owned(), row.get(1).unwrap_or_default().to_owned());
            }
        }
    }
    // The settings of this transaction, and of the client.
    state.retain(|name, _| !name.starts_with("transaction_") && name != "application_name");
    state
}

/// The state left on each of the server's connections in the pool, all of which are held at once.
async fn pooled_states(url: &str) -> Vec<BTreeMap<String, String>> {
    let mut held = Vec::new();
    for _ in 0..SIZE {
        let client = session(url).await;
        client.batch_execute("BEGIN").await.unwrap();
        held.push(client);
    }
    join_all(held.iter().map(state)).await
}

async fn works_and_leaves_nothing(mode: PoolMode, settings: &[&str]) {
    let server = server();
    let direct = server.database().unwrap();
    query(&direct, "CREATE TABLE orders AS SELECT 1 AS id").await;
    let pooler = pooler(&server, mode, settings);
    let url = pooler.url(&direct);
    let stores = join_all((0..4).map(|_| open(&url))).await;
    let neighbours = join_all((0..2).map(|_| neighbour(&url)));
    tokio::join!(join_all(stores.iter().map(work)), neighbours);
    let queues = stores[0].list_queues().await.unwrap();
    assert_eq!((queues[0].ready, queues[0].running, queues[0].dead), (0, 0, 0));
    drop(stores);
    let fresh = state(&session(&direct).await).await;
    for left in pooled_states(&url).await {
        let changed: Vec<_> = left.iter().filter(|(name, value)| fresh.get(*name) != Some(value)).collect();
        assert_eq!(changed, []);
        assert_eq!(left.len(), fresh.len());
    }
    assert_pins_nothing(&server);
}

/// Asserts from the server's log that no statement was sent for which a proxy would have to pin the
/// connection to a client.
fn assert_pins_nothing(server: &Postgres) {
    let log = std::fs::read_to_string(server.directory().join("log")).unwrap();
    let mut statements = 0;
    for line in log.lines() {
        let Some((_, said)) = line.split_once("LOG:  ") else { continue };
        let Some((kind, text)) = said.split_once(": ") else { continue };
        statements += usize::from(kind.starts_with("execute"));
        // Named statements are the user's own, inside a transaction.
        let own = text.contains("tidemill");
        assert!(!own || !kind.starts_with("execute") || kind == "execute <unnamed>", "{line}");
        let pins = ["SET ", "RESET ", "PREPARE ", "LISTEN ", "DISCARD ", "DECLARE ", "CREATE TEMP"];
        // The pooler itself forwards the client's application name.
        let harmless = text.starts_with("SET LOCAL ") || text.starts_with("SET application_name=");
        assert!(harmless || !pins.iter().any(|word| text.to_uppercase().starts_with(word)), "{line}");
        assert!(!text.contains("pg_advisory_lock("), "{line}");
    }
    assert!(statements > 4 * JOBS, "the log was not read");
}

#[tokio::test(flavor = "multi_thread")]
async fn works_in_transaction_mode_and_leaves_nothing_on_the_servers_connections() {
    works_and_leaves_nothing(PoolMode::Transaction, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn works_in_transaction_mode_of_a_pooler_that_passes_on_prepared_statements() {
    if Pgbouncer::knows_prepared_statements().unwrap() {
        works_and_leaves_nothing(PoolMode::Transaction, &["max_prepared_statements = 10"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn works_in_session_mode_and_leaves_nothing_on_the_servers_connections() {
    works_and_leaves_nothing(PoolMode::Session, &["server_reset_query ="]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_ups_come_by_the_direct_url_and_doctor_says_so() {
    let server = server();
    let direct = server.database().unwrap();
    let pooler = pooler(&server, PoolMode::Transaction, &[]);
    let url = format!("{}?listen={direct}", pooler.url(&direct));
    let (here, elsewhere) = (open(&url).await, open(&pooler.url(&direct)).await);
    let mut wakes = here.subscribe();
    assert_eq!(wakes.next().await, Some(Wake::Everything));
    scene(&elsewhere).enqueue(chain()).await;
    assert!(matches!(wakes.next().await, Some(Wake::Queue { .. })));
    assert_eq!(wake_ups(&here).await.0, Severity::Good);
    let (severity, found) = wake_ups(&elsewhere).await;
    assert_eq!(severity, Severity::Warning);
    assert!(found.contains("?listen=") && found.contains("polling"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_for_listening_to_another_database_is_reported() {
    let server = server();
    let (direct, other) = (server.database().unwrap(), server.database().unwrap());
    drop(open(&other).await);
    let (severity, found) = wake_ups(&open(&format!("{direct}?listen={other}")).await).await;
    assert_eq!(severity, Severity::Bad);
    assert!(found.contains("another database"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_from_another_process_is_found_by_polling_without_a_direct_url() {
    let server = server();
    let direct = server.database().unwrap();
    let pooler = pooler(&server, PoolMode::Transaction, &[]);
    let (here, elsewhere) = (open(&pooler.url(&direct)).await, open(&pooler.url(&direct)).await);
    let here = scene(&here);
    here.store.resume(&here.queue).await.unwrap();
    let (claimed, _) = tokio::join!(here.claim_with(1, 1, Duration::from_secs(60)), async {
        scene(&elsewhere).enqueue(chain()).await
    });
    assert_eq!(claimed.len(), 1);
}

/// The finding of the checkup about wake-ups.
async fn wake_ups(store: &Arc<PostgresStore>) -> (Severity, String) {
    let checkup = store.checkup().await.unwrap();
    let found = checkup.findings.into_iter().find(|finding| finding.subject == "wake-ups").unwrap();
    (found.severity, found.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_isolation_above_read_committed_changes_nothing() {
    let server = server();
    let direct = server.database().unwrap();
    let name = direct.rsplit('/').next().unwrap();
    query(&direct, &format!("CREATE TABLE orders AS SELECT 1 AS id; ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")).await;
    let pooler = pooler(&server, PoolMode::Transaction, &[]);
    for url in [direct.clone(), pooler.url(&direct)] {
        let stores = join_all((0..4).map(|_| open(&url))).await;
        join_all(stores.iter().map(work)).await;
    }
}

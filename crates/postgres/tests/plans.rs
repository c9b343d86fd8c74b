//! Statements keep their plans on empty tables that were never analyzed, and with statistics that are wrong by
//! five orders of magnitude: one index look-up per row, never a walk over a table or a whole index.

// A failure to arrange is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use tidemill_testkit::servers::shared_postgres;
use tokio_postgres::{Client, NoTls};
use world::connect;

/// The settings of the store's own connections; a test below compares.
const SETTINGS: &str = "SET search_path = tidemill; SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan;
    SET jit = off";

/// Every statement a worker or a client sends while jobs flow, with parameters to explain it with.
const STATEMENTS: [(&str, &str); 17] = [
    ("jobs/claim", "1, 'w', 30000, 500, 500, 0"),
    ("jobs/cancel", "'a'"),
    ("jobs/forget", "'{a,b}'"),
    ("jobs/get", "'a'"),
    ("jobs/next", "'{1,2}'"),
    ("jobs/prune", "500"),
    ("jobs/purge", "1, 1, 500, 0, 0"),
    ("jobs/list_waiting", "1, 0, 0, 100, false"),
    ("jobs/list_running", "1, 0, 0, 100"),
    ("leases/start", "'{1,2}'"),
    ("leases/extend", "'{1,2}', 30000"),
    ("leases/expired", "1, 0, 0, 100"),
    ("leases/finish", "'{1,2}', '{a,b}', false"),
    ("leases/record", "'{1}', '{a}', false, '{3}', '{x}', '{x}', '{1}', '{1}'"),
    ("leases/requeue", "'{1}', '{a}', false, '{0}', '{x}'"),
    ("leases/bury", "'{1}', '{a}', false, '{x}'"),
    ("letters/redrive", "1, '{a}', '{x}'"),
];

#[tokio::test]
async fn every_statement_keeps_its_plan_on_empty_tables_that_were_never_analyzed() {
    Database::new().await.assert_plans().await;
}

#[tokio::test]
async fn every_statement_keeps_its_plan_with_statistics_of_one_row() {
    let database = Database::new().await;
    database.fill(0, 1).await;
    database.run("ANALYZE").await;
    database.fill(1, 100_000).await;
    database.assert_plans().await;
}

#[tokio::test]
async fn every_statement_keeps_its_plan_with_statistics_from_after_a_drain() {
    let database = Database::new().await;
    database.fill(0, 100_000).await;
    database.run("DELETE FROM jobs; DELETE FROM ready; DELETE FROM leases").await;
    // The worst case: many pages, and the planner is certain that nothing is in them.
    database.run("VACUUM (ANALYZE, TRUNCATE off) jobs, ready, leases").await;
    database.fill(0, 100_000).await;
    database.assert_plans().await;
}

#[tokio::test]
async fn the_claim_walks_the_queue_in_order_and_sorts_nothing() {
    let database = Database::new().await;
    database.fill(0, 1).await;
    database.run("ANALYZE").await;
    database.fill(1, 100_000).await;
    let plan = database.explain("jobs/claim", "1, 'w', 30000, 500, 500, 0").await;
    assert!(plan.contains("Index Scan using ready_order on ready"), "{plan}");
    assert!(plan.contains("Tid Scan on ready"), "{plan}");
    assert!(!plan.contains("Sort"), "{plan}");
}

#[tokio::test]
async fn the_stores_own_connections_have_the_settings_these_plans_need() {
    let setup = include_str!("../src/connection.rs");
    let settings = SETTINGS.split(';').map(str::trim).filter(|setting| !setting.contains("search_path"));
    for setting in settings {
        assert!(setup.contains(setting), "{setting}");
    }
}

/// A database with the store's schema, seen past the store.
struct Database {
    client: Client,
}

impl Database {
    async fn new() -> Self {
        let url = shared_postgres().database().unwrap();
        drop(connect(&url).await);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(SETTINGS).await.unwrap();
        let database = Self { client };
        for table in ["jobs", "ready", "leases"] {
            database.run(&format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")).await;
        }
        database
    }

    async fn run(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// Adds waiting and running jobs, and as many dead and kept ones.
    async fn fill(&self, from: usize, to: usize) {
        self.run(&format!(
            "INSERT INTO jobs (id, queue, state, seq, due, envelope)
                 SELECT 'job-' || n, 1, (ARRAY[0, 0, 2, 3])[1 + n % 4], n, n, 'x' FROM generate_series({from}, {to} - 1) n;
             INSERT INTO ready (queue, due, seq, id)
                 SELECT 1, n, n, 'job-' || n FROM generate_series({from}, {to} - 1) n;
             INSERT INTO leases (seq, until, queue, started, id, worker)
                 SELECT n, n, 1, true, 'job-' || n, 'w' FROM generate_series({from}, {to} - 1) n"
        ))
        .await;
    }

    async fn assert_plans(&self) {
        for (name, parameters) in STATEMENTS {
            assert_looks_up(name, &self.explain(name, parameters).await);
        }
    }

    /// The plan of one of the store's statements, as a prepared statement gets it.
    async fn explain(&self, name: &str, parameters: &str) -> String {
        let path = format!("{}/sql/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        self.run(&format!("DEALLOCATE ALL; PREPARE statement AS {text}")).await;
        let rows =
            self.client.simple_query(&format!("EXPLAIN EXECUTE statement ({parameters})")).await.unwrap();
        let lines = rows.iter().filter_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Asserts that tables are read by bounded index scans and row addresses only.
fn assert_looks_up(name: &str, plan: &str) {
    let lines: Vec<&str> = plan.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        assert!(!line.contains("Seq Scan"), "{name} scans a table:\n{plan}");
        let scan = line.contains("Index Scan") || line.contains("Index Only Scan");
        let bounded = lines.get(at + 1).is_some_and(|next| next.contains("Index Cond"));
        assert!(!scan || bounded, "{name} walks an index:\n{plan}");
    }
}

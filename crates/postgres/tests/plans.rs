//! Statements keep their plans on empty tables that were never analyzed, and with statistics that
//! are wrong by five orders of magnitude: one index look-up per row, never a scan of a table or a
//! whole index.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::future::poll_fn;

use tidemill_testkit::servers::shared_postgres;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use world::connect;

/// The settings of functions that are called from outside, for the functions that only these call.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

/// Makes the server log the plans of statements inside functions.
const EXPLAIN_NESTED: &str = "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;
    SET auto_explain.log_nested_statements = on; SET client_min_messages = log";

const TABLES: [&str; 16] = [
    "jobs",
    "receipts",
    "ready",
    "leases",
    "blocks",
    "keys",
    "owed",
    "runs",
    "journal",
    "alarms",
    "deliveries",
    "run_keys",
    "attributes",
    "members",
    "sessions",
    "tickets",
];

/// The functions of all statements that a worker or a client sends in normal operation, with
/// parameters to explain them with.
const STATEMENTS: [(&str, &str); 31] = [
    ("jobs_insert", "1, '{new-1}', '{0}', '{0}', '{x}', 1, 1"),
    ("jobs_enqueue", "1, '{job-1,new-1}', '{0,0}', '{0,0}', '{x,x}', 1, 1"),
    (
        "jobs_link",
        "1, '{new-1,new-2}', '{0,0}', '{0,0}', '{x,x}', '{key-1,key-x}', '{f,t}', '{1,1}', '{1,2}', '{job-4,job-8}', 1, 1",
    ),
    ("receipts_find", "1, 1"),
    ("receipts_prune", "500, 0, 1"),
    ("jobs_claim", "1, 'w', 30000, 500, 500, 0, 0"),
    ("jobs_get", "'a', 100"),
    ("jobs_prune", "500, 0"),
    ("jobs_list_waiting", "1, 0, 0, 100, false"),
    ("jobs_list_running", "1, 0, 0, 100"),
    ("jobs_list_blocked", "1, 0, 0, 100, 100"),
    ("letters_list", "1, 0, 0, 100"),
    ("leases_start", "'{1,2}'"),
    ("leases_start_free", "'{1,2}'"),
    ("leases_extend", "'{1,2}', 30000"),
    ("leases_expired", "0, 0, 100"),
    ("leases_finish", "'{1,2}', '{a,b}', false"),
    ("leases_requeue", "'{1}', '{a}', false, '{0}', '{x}'"),
    ("leases_bury", "'{1}', '{a}', false, '{x}'"),
    ("letters_redrive", "1, '{a}', '{0}', '{x}', '{y}'"),
    ("runs_journal", "'run-4', 1, 100, 1000"),
    ("runs_get", "'run-4'"),
    ("runs_find_run", "'order', 'key-4'"),
    ("runs_list", "NULL, NULL, 0, NULL, NULL, 9223372036854775807, '', 100"),
    ("fleet_member", "'chromium:4'"),
    ("fleet_members", "'', 100"),
    ("fleet_members_of", "'', 100, 'chromium'"),
    ("fleet_session", "'session-4'"),
    ("fleet_sessions", "'', 100"),
    ("fleet_sessions_of", "'', 100, 'chromium:4'"),
    ("fleet_lines", ""),
];

/// Calls of functions that only other functions call.
const INNER_CALLS: [&str; 7] = [
    "remove_and_tell('{job-20,run-4!1}')",
    "forget('{job-7}')",
    "cancel_job('job-20', true)",
    "cancel_job('job-21', false)",
    "list_runs('order', 1::smallint, 0, NULL, NULL, 9223372036854775807, '', 100)",
    "list_runs(NULL, 0::smallint, 0, NULL, NULL, 9223372036854775807, '', 100)",
    "list_runs('order', NULL, 0, 'n', '7', 9223372036854775807, '', 100)",
];

/// Calls of functions that together reach every statement in these.
const CALLS: [&str; 44] = [
    "record_jobs('{4}', '{job-4}', false, '{3}', '{x}', '{x}', '{1}', '{1}')",
    "continue_jobs('{8}', '{job-8}', false, ARRAY[(1, 0, 0, 'x', '{job-12}')]::step_row[])",
    "continue_jobs('{8}', '{job-8}', false, ARRAY[(1, 0, 0, 'x', '{job-3}')]::step_row[])",
    "continue_jobs('{16}', '{job-16}', false, ARRAY[(1, 0, 0, 'x', '{}')]::step_row[])",
    "drop_cancelled('{16}', '{job-16}', false)",
    "delete_chain('job-24')",
    "delete_chain('job-25')",
    "purge_ready(1, 1000000, 100, 0, 0)",
    "purge_blocked(1, 1000000, 100)",
    "drop_letters(1, '{job-2,job-6}')",
    "complete_job('job-28', 3::smallint, 'x', NULL, 0, 1)",
    "complete_job('job-29', NULL, '', NULL, 0, 0)",
    "complete_by_continuing('job-32', 1, 0, 0, 'x', '{}')",
    "complete_by_continuing('job-32', 1, 0, 0, 'x', '{job-12,job-3,gone}')",
    "settle_job(36, 'job-36', 3::smallint, '', NULL, 0, 0)",
    "settle_job(36, 'job-36', NULL, '', NULL, 0, 0)",
    "enqueue_jobs(1, '{new-1,new-2}', '{0,0}', '{0,0}', '{x,x}', '{key-1,key-x}', '{f,t}', '{1,1}', '{1,2}', '{job-4,job-8}')",
    "release_owed(100)",
    "settle_runs('{4,8}', '{job-4,job-8}', false, ARRAY[(1, 1, 1, 'run-4', 7, 1, 2, 'x', 0, 'x', 0, 'x', 1)]::commit_row[], ARRAY[(2, NULL, 2, 'run-8', 1, 'x', 'x', 4)]::event_row[], ARRAY[(1, 0, 'run-4!1', 1, 0, 0, 'x', 'x'), (1, 1, 'job-20', 0, 0, 0, 'x', 'x'), (1, 2, 't', 9, 1, 0, 'x', 'x'), (1, 3, '-', 4, 0, 0, 'x', 'x'), (1, 4, 'n', 0, 0, 0, 'x', 'x'), (1, 5, 'run-4!2', 3, 1, 1, 'x', 'x')]::effect_row[], NULL)",
    "settle_runs('{4,8}', '{job-4,job-8}', false, ARRAY[(1, 1, 1, 'run-4', 7, 1, 2, 'x', 1, 'x', 0, 'x', 1)]::commit_row[], ARRAY[(2, NULL, 2, 'run-8', 1, 'x', 'x', 4)]::event_row[], '{}', NULL)",
    "settle_runs('{4,8}', '{job-4,job-8}', false, ARRAY[(1, 1, 1, 'run-4', 7, 1, 2, 'x', 2, 'x', 1, 'x', 1)]::commit_row[], ARRAY[(2, NULL, 2, 'run-8', 1, 'x', 'x', 4)]::event_row[], '{}', NULL)",
    "deliver_events('{run-4,run-8,gone,run-5}', '{1,2,2,2}', '{x,x,x,x}', '{NULL,x,y,x}', '{4,NULL,NULL,NULL}')",
    "deliver_job(36, 'job-36', 'run-4', 1::smallint, 'x', NULL, 4)",
    "complete_by_delivering('job-28', 'run-4', 1::smallint, 'x', NULL, 4)",
    "start_run(('new', 'order', '1', 1, 0, 'x', 'x', 'new', NULL, NULL, 1), '{1}', '{x}', 0::smallint, ARRAY[(1, 0, 'run-4!1', 1, 0, 0, 'x', 'x'), (1, 1, 'job-20', 0, 0, 0, 'x', 'x'), (1, 2, 't', 9, 1, 0, 'x', 'x'), (1, 3, '-', 4, 0, 0, 'x', 'x'), (1, 4, 'n', 0, 0, 0, 'x', 'x'), (1, 5, 'run-4!2', 3, 1, 1, 'x', 'x')]::effect_row[])",
    "start_run(('run-5', 'order', '1', 1, 0, 'x', 'x', 'key-5', NULL, NULL, 1), '{1}', '{x}', 0::smallint, '{}')",
    "terminate_run((1, 0, 0, 'run-4', NULL, 2, 2, NULL, 2, 'x', 4, 'x', NULL)::commit_row, (0, NULL, 0, 'run-8', 1, 'x', 'x', 4)::event_row, ARRAY[(1, 0, 'run-4!1', 1, 0, 0, 'x', 'x'), (1, 1, 'job-20', 0, 0, 0, 'x', 'x'), (1, 2, 't', 9, 1, 0, 'x', 'x'), (1, 3, '-', 4, 0, 0, 'x', 'x'), (1, 4, 'n', 0, 0, 0, 'x', 'x'), (1, 5, 'run-4!2', 3, 1, 1, 'x', 'x')]::effect_row[])",
    "promote('{1,2}', 100)",
    "prune_runs(10, 0, 100, 1000)",
    "join_members(ARRAY[('chromium:4', 'chromium', 'cdp', 'x', 0, 5, 0, 1, 'x'), ('chromium:new', 'chromium', 'cdp', 'x', 0, 5, 0, 1, 'x')]::member_row[])",
    "beat_members(ARRAY[('chromium:4', 'chromium', 'cdp', 'x', 0, 5, 0, 1, 'x'), ('chromium:new', 'chromium', 'cdp', 'x', 0, 5, 0, 1, 'x')]::member_row[], 1)",
    "part_members('{chromium:4,gone}')",
    "lease_member(('new', 'chromium', '{cdp}', 'w', 1, 1, 'x', '{chromium:5}', NULL, NULL), 1)",
    "lease_member(('session-4', 'chromium', '{cdp}', 'w', 1, 1, 'x', '{}', NULL, NULL), 1)",
    "lease_member(('session-4', 'firefox', '{bidi}', 'w', 1, 1, 'x', '{chromium:4}', 10, 1), 1)",
    "lease_member(('waiting-4', 'firefox', '{bidi}', 'w', 1, 1, 'x', '{}', 10, 1), 1)",
    "lease_member(('waiting-4', 'firefox', '{bidi}', 'w', 1, 1, 'x', '{}', NULL, NULL), 1)",
    "lease_member(('new', 'chromium', '{wear,cdp}', 'w', 1, 1, 'x', '{}', NULL, NULL), 1)",
    "attach_sessions(ARRAY[('session-4', 'chromium:4', 'w', 1, 1, true, true, false, 1, 'x'), ('session-8', 'gone', 'w', 1, 1, true, false, true, 1, 'x'), ('new', 'chromium:12', 'w', 1, 1, false, false, false, 1, 'x')]::session_row[])",
    "release_sessions('{session-4,waiting-4,gone}', '{w,w,w}', 1)",
    "close_session('session-4', 1)",
    "close_session('session-5', 1)",
    "drain_member('chromium:4', 1)",
    "reap_fleet(100, 1)",
];

#[tokio::test]
async fn every_statement_keeps_its_plan_on_empty_tables_that_were_never_analyzed() {
    Database::new().await.assert_plans().await;
}

#[tokio::test]
async fn every_statement_keeps_its_plan_with_statistics_of_one_row() {
    let mut database = Database::new().await;
    database.fill(0, 1).await;
    database.run("ANALYZE").await;
    database.fill(1, 100_000).await;
    database.assert_plans().await;
}

#[tokio::test]
async fn every_statement_keeps_its_plan_with_statistics_from_after_a_drain() {
    let mut database = Database::new().await;
    database.fill(0, 100_000).await;
    for table in TABLES {
        database.run(&format!("DELETE FROM {table}")).await;
    }
    // The worst case: many pages that the planner believes to be empty.
    database.run(&format!("VACUUM (ANALYZE, TRUNCATE off) {}", TABLES.join(", "))).await;
    database.fill(0, 100_000).await;
    database.assert_plans().await;
}

#[tokio::test]
async fn the_claim_walks_the_queue_in_order_and_sorts_nothing() {
    let mut database = Database::new().await;
    database.fill(0, 1).await;
    database.run("ANALYZE").await;
    database.fill(1, 100_000).await;
    let plan = database.explain("jobs_claim", "1, 'w', 30000, 500, 500, 0, 0").await;
    assert!(plan.contains("Index Scan using ready_order on ready"), "{plan}");
    assert!(plan.contains("Tid Scan on ready"), "{plan}");
    assert!(!plan.contains("Sort"), "{plan}");
}

/// A database with the store's schema, on a connection without the store.
struct Database {
    client: Client,
    /// Notices of the server: the plans of statements inside functions.
    notices: mpsc::UnboundedReceiver<String>,
}

impl Database {
    async fn new() -> Self {
        let url = shared_postgres().database().unwrap();
        drop(connect(&url).await);
        let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let (said, notices) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let Ok(AsyncMessage::Notice(notice)) = message {
                    let _ = said.send(notice.message().to_owned());
                }
            }
        });
        client.batch_execute("SET search_path = tidemill").await.unwrap();
        client.batch_execute(EXPLAIN_NESTED).await.unwrap();
        let database = Self { client, notices };
        for table in TABLES {
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
            "INSERT INTO jobs (id, queue, state, seq, due, envelope, key)
                 SELECT 'job-' || n, 1, n % 4, n, CASE n WHEN 3 THEN 9999999999999 ELSE n END, '{{\"keep_result_ms\":1}}', 'key-' || n
                 FROM generate_series({from}, {to} - 1) n;
             INSERT INTO blocks (job, position, chain, since)
                 SELECT 'job-' || n, 1, 'job-' || n - 1, 0 FROM generate_series({from}, {to} - 1) n WHERE n % 4 = 1;
             INSERT INTO keys (key, id, started) SELECT 'key-' || n, 'job-' || n, 0 FROM generate_series({from}, {to} - 1) n;
             INSERT INTO owed (chain, seq, told) SELECT 'job-' || n, n, 'x' FROM generate_series({from}, {to} - 1) n;
             INSERT INTO receipts (at, call) SELECT n + 9, n FROM generate_series({from}, {to} - 1) n;
             INSERT INTO ready (queue, due, seq, id)
                 SELECT 1, n, n, 'job-' || n FROM generate_series({from}, {to} - 1) n;
             INSERT INTO leases (seq, until, queue, started, cancelling, id, worker)
                 SELECT n, n, 1, true, n % 16 = 0, 'job-' || n, 'w' FROM generate_series({from}, {to} - 1) n;
             INSERT INTO runs (id, workflow, version, status, queue, cursor, length, started, keep, closed, until, key, head)
                 SELECT 'run-' || n, 'order', '1', n % 4, 1, 1, 2, n, 1, n, n, 'key-' || n, 'x'
                 FROM generate_series({from}, {to} - 1) n;
             INSERT INTO journal (run, position, kind, entry)
                 SELECT 'run-' || n, position, 2, 'x' FROM generate_series({from}, {to} - 1) n, generate_series(1, 2) position;
             INSERT INTO alarms (run, seq, due, alarm) SELECT 'run-' || n, 4, n, 't' FROM generate_series({from}, {to} - 1) n;
             INSERT INTO deliveries (run, id, at) SELECT 'run-' || n, 'x', n FROM generate_series({from}, {to} - 1) n;
             INSERT INTO run_keys (workflow, key, run)
                 SELECT 'order', 'key-' || n, 'run-' || n FROM generate_series({from}, {to} - 1) n;
             INSERT INTO attributes (run, name, value, started)
                 SELECT 'run-' || n, 'n', '7', n FROM generate_series({from}, {to} - 1) n;
             INSERT INTO memory (one) VALUES (true) ON CONFLICT DO NOTHING;
             INSERT INTO members (id, kind, status, concurrent, most, lifetime, fresh, beat_at, heard, stale_at, grace_until,
                     offer, endpoint, detail)
                 SELECT kind || ':' || n, kind, 0, 5, 0, 1, 1, 0, (SELECT word FROM memory WHERE one), n % 100 * 99999999999, 0, 'cdp', 'x', 'x'
                 FROM generate_series({from}, {to} - 1) n, LATERAL (
                     SELECT CASE WHEN n < 1000 THEN 'chromium' ELSE 'k' || n % 997 END AS kind) AS kind;
             INSERT INTO sessions (id, member, until, keep, started_at, connected, holder, detail)
                 SELECT 'session-' || n, 'chromium:' || n, n % 100 * 99999999999, 1, 1, n % 2 = 0, 'w', 'x'
                 FROM generate_series({from}, {to} - 1) n;
             INSERT INTO tickets (session, until, kind, offer, holder, refused)
                 SELECT 'waiting-' || n, n % 100 * 99999999999, 'firefox', 'bidi', 'w', '{{}}'
                 FROM generate_series({from}, LEAST({to} - 1, 1000)) n;
             INSERT INTO tickets (session, until, kind, offer, holder, refused)
                 SELECT 'picky-' || n, n % 100 * 99999999999, 'chromium', 'wear', 'w', '{{chromium:6}}'
                 FROM generate_series({from}, LEAST({to} - 1, 1000)) n"
        ))
        .await;
    }

    async fn assert_plans(&mut self) {
        for (name, parameters) in STATEMENTS {
            assert_looks_up(name, &self.explain(name, parameters).await);
        }
        for call in CALLS {
            for plan in self.explain_inside(call).await {
                assert_looks_up(call, &plan);
            }
        }
        self.run(SETTINGS).await;
        for call in INNER_CALLS {
            for plan in self.explain_inside(call).await {
                assert_looks_up(call, &plan);
            }
        }
    }

    /// The plans of all statements that a function runs.
    async fn explain_inside(&mut self, call: &str) -> Vec<String> {
        while self.notices.try_recv().is_ok() {}
        self.run("BEGIN").await;
        // A claim that does not exist is an error.
        let _ = self.client.batch_execute(&format!("SELECT {call}")).await;
        self.run("ROLLBACK").await;
        let mut plans = Vec::new();
        while let Ok(notice) = self.notices.try_recv() {
            plans.push(notice);
        }
        assert!(!plans.is_empty(), "{call} was not explained");
        plans
    }

    /// The plans of one of the store's statements, as its function has them on a connection without
    /// settings.
    async fn explain(&mut self, name: &str, parameters: &str) -> String {
        let call = format!("{name}({parameters})");
        self.explain_inside(&call).await.join("\n")
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

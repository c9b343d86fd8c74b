//! SQLite's own risks with runs: its schema, its plans, its transactions, and corrupt rows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod database_dir;

use database_dir::{DatabaseDir, scene};
use rusqlite::Connection;
use tidemill_core::Error;
use tidemill_core::store::runs::{
    AfterCommit, Delivered, Effect, ListRunsParams, PruneRunsParams, ReadJournalParams,
};
use tidemill_core::store::{Inspect, Jobs, Runs, SettleParams, Severity, Verdict};
use tidemill_sqlite::SqliteStore;
use tidemill_testkit::conformance::harness::{activity, completed, done, order, signal, timer};

/// The schema before there were runs: only jobs.
const VERSION_1: &str = include_str!("../migrations/0001_jobs.sql");

#[tokio::test]
async fn a_file_from_before_there_were_runs_gets_their_tables_and_keeps_its_jobs() {
    let dir = DatabaseDir::new();
    let old = dir.raw();
    old.execute_batch(VERSION_1).unwrap();
    let jobs = "UPDATE tidemill_schema SET version = 1;
        INSERT INTO tidemill_queues (id, name, delivery) VALUES (1, 'jobs', 'at_least_once');
        INSERT INTO tidemill_jobs (seq, id, queue, due, body)
            VALUES (1, 'a', 1, 0, CAST('{\"job_id\":\"a\",\"task_type\":\"t\"}' AS BLOB));
        INSERT INTO tidemill_waiting VALUES (1, 0, 1);";
    old.execute_batch(jobs).unwrap();
    drop(old);
    let scene = scene(&dir.open().await);
    assert_eq!(scene.claim(1).await[0].lease.job.as_str(), "a");
    scene.start_parked_run(|_| Vec::new()).await;
}

#[tokio::test]
async fn one_task_has_the_news_of_a_whole_batch() {
    let dir = DatabaseDir::new();
    let scene = scene(&dir.open().await);
    let run = scene.start_parked_run(|_| Vec::new()).await;
    scene.signal(&run, 0..20).await;
    assert_eq!(scene.task_of(&run).await.signals(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn at_a_full_disk_runs_take_nothing_in_but_go_on() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let run = scene.start_run(order()).await;
    let task = scene.task_of(&run).await;
    // A directory instead of the reserve file has the effect of a full disk.
    let reserve = dir.path().with_extension("db-reserve");
    std::fs::remove_file(&reserve).unwrap();
    std::fs::create_dir(&reserve).unwrap();
    let refused = store.start_run(&order()).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    let refused = store.deliver(&[signal(&run, 1)]).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    scene.commit(&task, vec![activity(&run, 1)], AfterCommit::Running).await;
    let activity = scene.on_activities().claim_one().await;
    scene.on_activities().settle(&activity, done()).await;
    let task = scene.task_of(&run).await;
    scene.commit(&task, Vec::new(), completed("7")).await;
}

#[tokio::test]
async fn a_commit_that_does_not_fit_leaves_nothing_and_can_be_made_again() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let run = scene.start_run(order()).await;
    let task = scene.task_of(&run).await;
    let effects = || {
        let Effect::Job { queue, mut job } = activity(&run, 1) else { unreachable!() };
        job.envelope = "x".repeat(500_000).into();
        vec![timer(2, scene.after(std::time::Duration::ZERO)), Effect::Job { queue, job }]
    };
    let pages: i64 = dir.raw().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let room: &'static str = format!("max_page_count = {}", pages + 20).leak();
    store.set_pragma(room).await.unwrap();
    let refused =
        store.settle(SettleParams::current(&[task.settlement(effects(), AfterCommit::Running)])).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    let info = scene.run(&run).await;
    assert_eq!((info.length, info.cursor, info.next_timer), (1, 0, None));
    store.set_pragma("max_page_count = 100000").await.unwrap();
    scene.commit(&task, effects(), AfterCommit::Running).await;
}

fn change(dir: &DatabaseDir, sql: &str) {
    assert!(dir.raw().execute(sql, []).unwrap() > 0, "{sql}");
}

async fn severity(store: &SqliteStore, subject: &str) -> Severity {
    let findings = store.checkup().await.unwrap().findings;
    findings.iter().find(|finding| finding.subject == subject).unwrap().severity
}

#[tokio::test]
async fn an_alarm_that_cannot_go_off_is_set_aside_and_the_others_go_off() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let alarm = |seq| move |_: &_| vec![timer(seq, tidemill_core::Timestamp(5))];
    let (unknown, clashing, sound) = (
        scene.start_parked_run(alarm(1)).await,
        scene.start_parked_run(alarm(2)).await,
        scene.start_parked_run(alarm(3)).await,
    );
    change(&dir, "UPDATE tidemill_alarms SET alarm = 'x' WHERE seq = 1");
    change(&dir, &format!("UPDATE tidemill_runs SET length = 1 WHERE id = '{clashing}'"));
    let task = scene.task_when_due().await;
    assert_eq!((task.run, task.news[0].1["event"]["timer_fired"]["seq"].as_u64()), (sound, Some(3)));
    scene.promote().await;
    scene.no_task().await;
    assert_eq!(severity(&store, "alarms").await, Severity::Bad);
    assert_eq!(scene.terminate(&unknown, &[]).await, Verdict::Accepted);
}

#[tokio::test]
async fn a_run_that_makes_no_sense_hides_no_other() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let (broken, lost, sound) = (
        scene.start_parked_run(|_| Vec::new()).await,
        scene.start_parked_run(|_| Vec::new()).await,
        scene.start_parked_run(|_| Vec::new()).await,
    );
    change(&dir, &format!("UPDATE tidemill_runs SET version = 'no version' WHERE id = '{broken}'"));
    change(&dir, &format!("UPDATE tidemill_runs SET queue = 99 WHERE id = '{lost}'"));
    for run in [&broken, &lost] {
        assert!(matches!(store.get_run(run).await, Err(Error::Corrupt(_))));
    }
    let page = store.list_runs(ListRunsParams { limit: 10, ..ListRunsParams::default() }).await.unwrap();
    assert_eq!(page.items.iter().map(|info| &info.run).collect::<Vec<_>>(), [&sound]);
    let answers = store.deliver(&[signal(&lost, 1), signal(&sound, 2)]).await.unwrap();
    assert_eq!(answers, [Delivered::Yes; 2]);
    assert_eq!(scene.task_of(&sound).await.signals(), [2]);
    assert_eq!(severity(&store, "runs").await, Severity::Warning);
}

#[tokio::test]
async fn an_entry_that_is_garbage_is_read_as_it_is() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let run = scene.start_parked_run(|_| Vec::new()).await;
    change(&dir, "UPDATE tidemill_journal SET entry = x'ff00' WHERE position = 1");
    let entries =
        store.read_journal(ReadJournalParams { run: &run, from: 1, limit: 9, bytes: 1 << 20 }).await.unwrap();
    assert_eq!((entries.len(), &entries[0].1.bytes[..]), (2, &[0xff, 0][..]));
    scene.signal(&run, [1]).await;
    assert_eq!(scene.task_of(&run).await.signals(), [1]);
}

#[tokio::test]
async fn more_than_one_call_prunes_are_pruned_by_several_the_oldest_first() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let run = scene.start_run(order()).await;
    let task = scene.task_of(&run).await;
    scene.commit(&task, Vec::new(), completed("7")).await;
    let more = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
        INSERT INTO tidemill_runs (id, cursor, length, status, closed, expires, started, keep, queue, workflow, version, head)
        SELECT 'r' || i, cursor, length, status, closed + i, expires, started, keep, queue, workflow, version, head
        FROM n, tidemill_runs";
    change(&dir, "UPDATE tidemill_runs SET closed = closed - 3000");
    change(&dir, more);
    let prune = PruneRunsParams { max_kept: 10, min_age: std::time::Duration::ZERO };
    assert_eq!(store.prune_runs(prune).await.unwrap(), 1_000);
    let oldest: i64 =
        dir.raw().query_row("SELECT min(number) FROM tidemill_runs", [], |row| row.get(0)).unwrap();
    assert_eq!(oldest, 1_001);
    assert_eq!(store.prune_runs(prune).await.unwrap(), 490);
    assert_eq!(store.prune_runs(prune).await.unwrap(), 0);
}

/// The query plan of a statement.
fn plan(connection: &Connection, sql: &str) -> String {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![1; explain.parameter_count()];
    let steps =
        explain.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn no_statement_about_runs_looks_at_more_than_it_needs() {
    let dir = DatabaseDir::new();
    drop(dir.open().await);
    let connection = dir.raw();
    let statements = statements_about_runs();
    assert!(statements.len() > 30, "{} statements were found", statements.len());
    for sql in statements {
        let plan = plan(&connection, &sql);
        let walks = plan.lines().any(|step| step.starts_with("SCAN tidemill_"));
        let sorts = plan.contains("USE TEMP B-TREE FOR ORDER BY");
        assert!(!walks && !sorts, "{sql}:\n{plan}");
    }
}

/// The statements in `sql/runs` and the constants in `src/runs`.
fn statements_about_runs() -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |folder: &str| {
        let files = std::fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().path());
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
    };
    let mut statements = read("sql/runs");
    for source in read("src/runs") {
        let constants = source.split(": &str =").skip(1);
        let texts = constants.filter_map(|rest| rest.split('"').nth(1)).map(str::to_owned);
        statements.extend(texts);
    }
    statements
}

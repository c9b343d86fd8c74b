//! PostgreSQL's own risks with runs: concurrent connections, users' transactions, and entries that
//! are assembled in SQL.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::runs::{
    AfterCommit, Delivery, Effect, EntryKind, ReadJournalParams, RunPosition, StoredEntry,
    task_envelope as task_bytes, with_timestamp,
};
use tidemill_core::store::{
    ClaimParams, CompleteParams, Completed, Jobs, Queues, Runs, SettleParams, Verdict,
};
use tidemill_core::wake::Wake;
use tidemill_core::workflow::RunId;
use tidemill_core::{HolderId, Store, Timestamp};
use tidemill_postgres::PostgresStore;
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::conformance::harness::{ClaimedTask, activity, completed, order, signal, timer};
use tidemill_testkit::servers::shared_postgres;
use world::{connect, query, queue, session};

/// The timeout of a test.
const FOR_EVER: Duration = Duration::from_secs(60);

async fn scene() -> (String, Arc<PostgresStore>, QueueHarness) {
    let url = shared_postgres().database().unwrap();
    let store = Arc::new(connect(&url).await);
    let scene = QueueHarness::new(store.clone(), queue("unused"));
    (url, store, scene)
}

fn told(delivery: Delivery) -> Change {
    Change::Deliver(Box::new(delivery))
}

/// The event that an activity has ended.
fn ended(run: &RunId, seq: u64) -> Delivery {
    let entry = format!(r#"{{"at":1,"event":{{"activity_done":{{"seq":{seq},"result":{{"ok":1}}}}}}}}"#);
    let written = StoredEntry { kind: EntryKind::CommandResult, bytes: entry.into() };
    Delivery { run: run.clone(), entry: written, id: None, seq: Some(seq) }
}

/// Batches in which the commit of one run cancels the activity that the other batch ends, for the
/// other run: each needs what the other has locked.
#[tokio::test(flavor = "multi_thread")]
async fn batches_that_want_each_others_claims_take_turns() {
    let (url, store, scene) = scene().await;
    let other = connect(&url).await;
    for _ in 0..40 {
        let mut batches: [Vec<Settlement>; 2] = [Vec::new(), Vec::new()];
        for which in 0..2 {
            let run = scene.start_parked_run(|run| vec![activity(run, 1)]).await;
            let claimed = scene.on_activities().claim_one().await;
            scene.signal(&run, [1]).await;
            let task = scene.task_of(&run).await;
            let cancel = vec![Effect::CancelJob(run.part(1)), timer(2, scene.after(Duration::from_secs(60)))];
            batches[which].push(task.settlement(cancel, AfterCommit::Running));
            batches[1 - which].push(Settlement { lease: claimed.lease, change: told(ended(&run, 1)) });
        }
        let (one, two) = tokio::join!(
            store.settle(SettleParams::current(&batches[0])),
            other.settle(SettleParams::current(&batches[1]))
        );
        for verdict in one.unwrap().into_iter().chain(two.unwrap()) {
            assert_eq!(verdict, Verdict::Accepted);
        }
        // Whichever came first, both runs have a task with the activity's end.
        for _ in 0..2 {
            let task = scene.task().await;
            scene.commit(&task, Vec::new(), AfterCommit::Running).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_commits_and_alarms_of_few_runs_at_once_are_all_kept() {
    let (url, _, scene) = scene().await;
    let stores: Vec<_> = join_all((0..4).map(|_| connect(&url))).await.into_iter().map(Arc::new).collect();
    let runs: Vec<_> = join_all((0..3).map(|_| scene.start_run(order()))).await;
    let senders = stores.iter().enumerate().map(|(who, store)| {
        let runs = runs.clone();
        async move {
            for number in 0..25u64 {
                let batch: Vec<_> =
                    runs.iter().rev().map(|run| signal(run, who as u64 * 100 + number)).collect();
                store.deliver(&batch).await.unwrap();
            }
        }
    });
    let work = async {
        let (mut seen, worker) = (0, HolderId::new("w").unwrap());
        let tasks = order().queue;
        while seen < 3 * 4 * 25 {
            scene.promote().await;
            let mut claim = ClaimParams::now(&tasks, &worker, Duration::from_secs(30), 3);
            claim.wait = Duration::from_millis(20);
            let claimed: Vec<_> =
                scene.store.claim(claim).await.unwrap().into_iter().map(ClaimedTask::new).collect();
            seen += claimed.iter().map(|task| task.signals().len()).sum::<usize>();
            let past = |task: &ClaimedTask| vec![timer(task.last(), Timestamp(1))];
            let settlements: Vec<_> =
                claimed.iter().map(|task| task.settlement(past(task), AfterCommit::Running)).collect();
            let verdicts = scene.store.settle(SettleParams::current(&settlements)).await.unwrap();
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Accepted), "{verdicts:?}");
        }
    };
    tokio::join!(join_all(senders), work);
}

#[tokio::test]
async fn a_task_has_the_bytes_that_the_contract_says() {
    let (_, store, scene) = scene().await;
    let new = order();
    scene.start_run(new.clone()).await;
    let first = with_timestamp(&new.journal[0].bytes, scene.run(&new.run).await.started_at);
    let at = RunPosition { cursor: 0, last_commit: None };
    let expected = task_bytes(&new.task_head, &new.first_task_fields, at, [(1, &first[..])]);
    let task = scene.task_of(&new.run).await;
    assert_eq!(task.claimed.body.as_ref().unwrap().bytes(), &expected);
    let last_commit = Some(scene.commit_named(&task, AfterCommit::Running).await);
    // Bytes that are not text are appended as they are, without an error.
    let odd = Bytes::from_static(b"\xff\x00{");
    let written = StoredEntry { kind: EntryKind::Message, bytes: odd.clone() };
    store.deliver(&[Delivery { entry: written.clone(), ..signal(&new.run, 1) }]).await.unwrap();
    let read = ReadJournalParams { run: &new.run, from: 3, limit: 10, bytes: 1 << 20 };
    assert_eq!(store.read_journal(read).await.unwrap(), [(3, written)]);
    let claimed = scene.on_tasks().claim_one().await;
    let (raw, _) = claimed.body.unwrap_err();
    assert_eq!(raw, task_bytes(&new.task_head, b"", RunPosition { cursor: 1, last_commit }, [(3, &odd[..])]));
}

#[tokio::test]
async fn an_activity_that_is_completed_in_a_transaction_tells_its_run_when_that_commits() {
    let (url, store, scene) = scene().await;
    let run = scene.start_parked_run(|run| vec![activity(run, 1), activity(run, 2)]).await;
    let client = session(&url).await;
    for isolation in ["READ COMMITTED", "SERIALIZABLE"] {
        let seq = if isolation == "SERIALIZABLE" { 2 } else { 1 };
        client.batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}")).await.unwrap();
        let (job, change) = (run.part(seq), told(ended(&run, seq)));
        let complete = CompleteParams { job: &job, change: &change };
        let (completed, pending) = store.complete_in(&client, complete).await.unwrap();
        assert_eq!(completed, Completed::Yes);
        scene.no_task().await;
        client.batch_execute("COMMIT").await.unwrap();
        store.announce(pending).await;
        let task = scene.task_of(&run).await;
        assert_eq!(task.news[0].1["event"]["activity_done"]["seq"], seq);
        scene.commit(&task, Vec::new(), AfterCommit::Running).await;
    }
    assert_eq!(
        store.list_queues().await.unwrap().iter().map(|queue| queue.ready + queue.running).sum::<u64>(),
        0
    );
}

#[tokio::test]
async fn an_activity_is_completed_by_a_select() {
    let (url, _, scene) = scene().await;
    let run = scene.start_parked_run(|run| vec![activity(run, 1)]).await;
    let call = format!("SELECT tidemill.complete('{}', '{{\"sum\": 3}}')", run.part(1));
    assert_eq!(query(&url, &call).await, [["yes"]]);
    assert_eq!(query(&url, &call).await, [["not_found"]]);
    let task = scene.task_of(&run).await;
    assert_eq!(task.news[0].1["event"]["activity_done"]["result"]["ok"]["sum"], 3);
    scene.on_activities().claim_nothing().await;
}

#[tokio::test]
async fn an_alarm_of_a_run_that_is_gone_does_not_hold_up_the_rest() {
    let (url, _, scene) = scene().await;
    query(&url, "INSERT INTO tidemill.alarms (run, seq, due, alarm) VALUES ('gone', 1, 0, 't')").await;
    let run = scene.start_parked_run(|_| vec![timer(1, Timestamp(1))]).await;
    assert_eq!(scene.task_when_due().await.run, run);
    assert!(query(&url, "SELECT run FROM tidemill.alarms").await.is_empty());
}

#[tokio::test]
async fn a_batch_of_commits_is_one_trip() {
    let (_, store, scene) = scene().await;
    let mut settlements = Vec::new();
    for _ in 0..20 {
        let run = scene.start_run(order()).await;
        settlements.push(scene.task_of(&run).await.settlement(vec![activity(&run, 1)], AfterCommit::Running));
    }
    scene.start_parked_run(|run| vec![activity(run, 1)]).await;
    // Wake-ups have a connection and an interval of their own.
    store.flush().await;
    let before = store.commands();
    store.settle(SettleParams::current(&settlements)).await.unwrap();
    let sent = store.commands() - before;
    assert!(sent < 5, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commit_that_ends_a_run_tells_the_other_processes_itself() {
    let (url, store, scene) = scene().await;
    let other = connect(&url).await;
    let mut heard = other.subscribe();
    // The first wake-up reports that it listens now.
    assert_eq!(tokio::time::timeout(FOR_EVER, heard.next()).await.unwrap(), Some(Wake::Everything));
    let run = scene.start_run(order()).await;
    let end = scene.task_of(&run).await.settlement(Vec::new(), completed("1"));
    store.flush().await;
    let before = store.commands();
    assert_eq!(store.settle(SettleParams::current(&[end])).await.unwrap(), [Verdict::Accepted]);
    let finished = async { while heard.next().await != Some(Wake::Finished(run.task())) {} };
    tokio::time::timeout(FOR_EVER, finished).await.unwrap();
    store.flush().await;
    assert_eq!(store.commands() - before, 1);
}

//! Runs: starting them, delivering events, and committing their tasks.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tidemill_core::job::JobState;
use tidemill_core::settle::{Change, Outcome, Settlement};
use tidemill_core::store::runs::{
    ConflictPolicy, Delivered, Delivery, Effect, EntryKind, MAX_TASK_EVENTS, StartRunParams, ReadJournalParams, ContinueAsNew, RunKey, DELIVERY_ID_RETENTION,
    StartRunResult, AfterCommit, with_timestamp,
};
use tidemill_core::store::{JobRecord, SettleParams, Verdict};
use tidemill_core::workflow::{RunId, RunStatus, WorkflowName};

use super::StoreUnderTest;
use super::harness::{
    LONG, SHORT, activity, answer, completed, done, envelope, event, order, order_of, retry, signal, until,
};

pub async fn a_run_begins_with_its_first_entry_and_a_task(subject: StoreUnderTest) {
    let harness = subject.harness();
    let new = order();
    let run = harness.start_run(new.clone()).await;
    let task = harness.task_of(&run).await;
    assert_eq!((task.cursor, task.last()), (0, 1));
    assert_eq!(task.news[0].1["event"]["started"]["input"], 7);
    assert_eq!(envelope(&task.claimed).payload(), b"7");
    assert_eq!(envelope(&task.claimed).kind().as_str(), "workflow:order");
    assert_eq!(harness.journal(&run).await, task.news);
    let info = harness.run(&run).await;
    assert_eq!((info.workflow, info.version, info.queue), (new.workflow, new.version, new.queue));
    assert_eq!((info.status, info.cursor, info.length), (RunStatus::Running, 0, 1));
    assert!(info.started_at.0 > 0 && info.closed_at.is_none() && info.output.is_empty());
}

/// After a store has lost a commit, another worker may commit at the same position: only the commit's id tells the two apart.
pub async fn a_task_names_the_commit_before_it(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let first = harness.task_of(&run).await;
    assert_eq!((first.last_commit, harness.run(&run).await.last_commit), (None, None));
    let committed = harness.commit_named(&first, AfterCommit::Running).await;
    assert_eq!(harness.run(&run).await.last_commit, Some(committed));
    harness.signal(&run, [1]).await;
    let second = harness.task_of(&run).await;
    assert_eq!(second.last_commit, Some(committed.number()));
    harness.signal(&run, [2]).await;
    let committed = harness.commit_named(&second, AfterCommit::Running).await;
    let third = harness.task_of(&run).await;
    assert_eq!(third.last_commit, Some(committed.number()), "the task that a commit makes names it");
    let restart = ContinueAsNew { first: order().journal.remove(0).bytes, id_retention: DELIVERY_ID_RETENTION };
    let committed = harness.commit_named(&third, AfterCommit::ContinueAsNew(restart)).await;
    assert_eq!(harness.task_of(&run).await.last_commit, Some(committed.number()));
}

pub async fn the_same_id_is_one_run(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let again = || async { harness.store.start_run(&order_of(run.clone())).await.unwrap() };
    assert_eq!(again().await, StartRunResult::Existing(run.clone()));
    let task = harness.task_of(&run).await;
    assert_eq!(again().await, StartRunResult::Existing(run.clone()));
    harness.commit(&task, Vec::new(), completed("1")).await;
    assert_eq!(again().await, StartRunResult::Existing(run.clone()));
    harness.no_task().await;
}

fn keyed(key: &str, conflict: ConflictPolicy) -> StartRunParams {
    let new = order();
    let run = RunId::keyed(&new.workflow, key);
    let new = order_of(run);
    StartRunParams { key: Some(RunKey { key: key.to_owned(), conflict }), ..new }
}

pub async fn a_key_is_one_run_and_the_second_caller_gets_it(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(keyed("k", ConflictPolicy::UseExisting)).await;
    let start = |conflict| {
        let harness = harness.clone();
        async move { harness.store.start_run(&keyed("k", conflict)).await.unwrap() }
    };
    assert_eq!(start(ConflictPolicy::UseExisting).await, StartRunResult::Existing(run.clone()));
    assert_eq!(start(ConflictPolicy::Reject).await, StartRunResult::Rejected(run.clone()));
    assert_eq!(start(ConflictPolicy::StartAfterClose).await, StartRunResult::Existing(run.clone()));
    assert_eq!(harness.run(&run).await.key.as_deref(), Some("k"));
    harness.start_run(keyed("other", ConflictPolicy::Reject)).await;
    let mut tasks = [harness.task().await, harness.task().await];
    tasks.sort_by_key(|task| task.run != run);
    harness.commit(&tasks[0], Vec::new(), completed("1")).await;
    assert_eq!(start(ConflictPolicy::UseExisting).await, StartRunResult::Existing(run.clone()));
    assert_eq!(start(ConflictPolicy::Reject).await, StartRunResult::Rejected(run));
    assert_eq!(start(ConflictPolicy::StartAfterClose).await, StartRunResult::Created);
    assert!(matches!(start(ConflictPolicy::StartAfterClose).await, StartRunResult::Existing(_)));
}

pub async fn a_run_is_found_by_its_key(subject: StoreUnderTest) {
    let harness = subject.harness();
    let find = async |workflow: &WorkflowName, key: &str| harness.store.find_run(workflow, key).await.unwrap();
    let order = order().workflow;
    assert_eq!(find(&order, "k").await, None);
    let first = harness.start_run(keyed("k", ConflictPolicy::UseExisting)).await;
    assert_eq!(find(&order, "k").await, Some(first.clone()));
    assert_eq!(find(&order, "K").await, None);
    assert_eq!(find(&WorkflowName::new("another").unwrap(), "k").await, None);
    harness.commit(&harness.task_of(&first).await, Vec::new(), completed("1")).await;
    assert_eq!(find(&order, "k").await, Some(first.clone()), "a closed run keeps its key");
    let second = harness.start_run(keyed("k", ConflictPolicy::StartAfterClose)).await;
    assert_ne!(first, second);
    assert_eq!(find(&order, "k").await, Some(second), "the latest has it");
    let odd = harness.start_run(keyed("k 2 \u{e9}:*", ConflictPolicy::UseExisting)).await;
    assert_eq!(find(&order, "k 2 \u{e9}:*").await, Some(odd));
}

pub async fn one_key_started_by_many_is_one_run(subject: StoreUnderTest) {
    let harness = subject.harness();
    for round in 0..20 {
        let key = format!("k{round}");
        let others = join_all((0..3).map(|_| subject.other_connection())).await;
        let starts = others.iter().map(|store| {
            let new = keyed(&key, ConflictPolicy::UseExisting);
            async move { (store.start_run(&new).await.unwrap(), new.run) }
        });
        let answers = join_all(starts).await;
        let (winners, losers): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(answer, _)| *answer == StartRunResult::Created);
        assert_eq!(winners.len(), 1);
        for (answer, _) in losers {
            assert_eq!(answer, StartRunResult::Existing(winners[0].1.clone()));
        }
        harness.task_of(&winners[0].1).await;
    }
}

pub async fn however_many_events_arrive_there_is_one_task(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| Vec::new()).await;
    harness.no_task().await;
    assert_eq!(harness.state(&run.task()).await, None);
    for number in 0..5 {
        harness.signal(&run, [number]).await;
    }
    let task = harness.task_of(&run).await;
    assert_eq!(task.signals()[0], 0);
    harness.no_task().await;
    harness.signal(&run, [5]).await;
    harness.no_task().await;
    harness.commit(&task, Vec::new(), AfterCommit::Running).await;
    let mut seen = task.signals();
    while seen.len() < 6 {
        let next = harness.task_of(&run).await;
        seen.extend(next.signals());
        harness.commit(&next, Vec::new(), AfterCommit::Running).await;
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    harness.no_task().await;
}

pub async fn what_a_task_did_not_consume_comes_with_the_next(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| Vec::new()).await;
    harness.signal(&run, [1, 2, 3]).await;
    let task = harness.task_of(&run).await;
    let first = task.news[0].0;
    let settlement = task.settlement_upto(first, Vec::new(), AfterCommit::Running);
    assert_eq!(harness.store.settle(SettleParams::current(&[settlement])).await.unwrap(), [Verdict::Accepted]);
    let next = harness.task_of(&run).await;
    assert_eq!((next.cursor, next.signals()), (first, vec![2, 3]));
    assert_eq!(harness.run(&run).await.cursor, first);
    harness.commit(&next, Vec::new(), AfterCommit::Running).await;
    harness.no_task().await;
}

pub async fn signals_keep_their_order_and_none_is_lost_however_many(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let count = MAX_TASK_EVENTS as u64 * 2 + 50;
    harness.signal(&run, 0..count).await;
    let mut seen = Vec::new();
    while seen.len() < count as usize {
        let task = harness.task_of(&run).await;
        assert!(task.news.len() <= MAX_TASK_EVENTS);
        seen.extend(task.signals());
        harness.commit(&task, Vec::new(), AfterCommit::Running).await;
    }
    assert_eq!(seen, (0..count).collect::<Vec<_>>());
    harness.no_task().await;
}

pub async fn an_event_with_an_id_is_delivered_once(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| Vec::new()).await;
    let once = |id: &str| Delivery { id: Some(id.to_owned()), ..signal(&run, 1) };
    let answers = harness.store.deliver(&[once("a"), once("a"), once("b")]).await.unwrap();
    assert_eq!(answers, [Delivered::Yes, Delivered::Duplicate, Delivered::Yes]);
    assert_eq!(harness.deliver(once("a")).await, Delivered::Duplicate);
    let other = harness.start_parked_run_beside(&run).await;
    assert_eq!(harness.deliver(Delivery { run: other, ..once("a") }).await, Delivered::Yes);
}

pub async fn a_run_that_has_ended_or_never_was_is_told_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let task = harness.task_of(&run).await;
    harness.commit(&task, Vec::new(), completed("1")).await;
    assert_eq!(harness.deliver(signal(&run, 1)).await, Delivered::Closed(RunStatus::Completed));
    assert_eq!(harness.deliver(signal(&RunId::generate(), 1)).await, Delivered::NotFound);
    assert_eq!(harness.journal(&run).await.len(), 2);
    assert!(harness.store.get_run(&RunId::generate()).await.unwrap().is_none());
    assert!(harness.journal(&RunId::generate()).await.is_empty());
    harness.no_task().await;
}

pub async fn deliveries_of_a_batch_stand_for_themselves(subject: StoreUnderTest) {
    let harness = subject.harness();
    let open = harness.start_parked_run(|_| Vec::new()).await;
    let batch = [
        signal(&RunId::generate(), 1),
        signal(&open, 2),
        signal(&RunId::generate(), 3),
        signal(&open, 4),
    ];
    assert_eq!(
        harness.store.deliver(&batch).await.unwrap(),
        [Delivered::NotFound, Delivered::Yes, Delivered::NotFound, Delivered::Yes]
    );
    assert!(harness.store.deliver(&[]).await.unwrap().is_empty());
}

pub async fn a_waiting_claim_is_woken_by_a_run_and_by_an_event(subject: StoreUnderTest) {
    let harness = subject.harness().on_tasks();
    let elsewhere = harness.with_store(subject.other_connection().await);
    let waiting = |harness: super::QueueHarness| tokio::spawn(async move { harness.claim_with(1, 1, LONG).await });
    let claim = waiting(elsewhere.clone());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let run = harness.start_run(order()).await;
    let claimed = until("a claim to be woken", || async { claim.is_finished().then_some(()) });
    claimed.await;
    let task = super::harness::ClaimedTask::new(claim.await.unwrap().remove(0));
    elsewhere.commit(&task, Vec::new(), AfterCommit::Running).await;
    let claim = waiting(elsewhere.clone());
    tokio::time::sleep(Duration::from_millis(50)).await;
    harness.signal(&run, [1]).await;
    until("a claim to be woken", || async { claim.is_finished().then_some(()) }).await;
    assert_eq!(claim.await.unwrap().len(), 1);
}

pub async fn a_commit_is_an_entry_and_its_effects(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| vec![activity(run, 1), activity(run, 2)]).await;
    let journal = harness.journal(&run).await;
    assert_eq!(journal.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(journal[1].1["commit"]["upto"], 1);
    let info = harness.run(&run).await;
    assert_eq!((info.cursor, info.length), (1, 2));
    let mut ids: Vec<_> =
        harness.on_activities().claim(2).await.into_iter().map(|claimed| claimed.lease.job).collect();
    ids.sort();
    assert_eq!(ids, [run.part(1), run.part(2)]);
}

pub async fn a_run_is_told_how_its_activity_ended(subject: StoreUnderTest) {
    let harness = subject.harness();
    let ends: [(Outcome, &str); 3] =
        [(done(), "ok"), (retry(Duration::ZERO), "failed"), (Outcome::Cancelled, "failed")];
    for (outcome, word) in ends {
        let run = harness.start_parked_run(|run| vec![activity(run, 1)]).await;
        let claimed = harness.on_activities().claim_one().await;
        harness.on_activities().settle(&claimed, outcome).await;
        let task = harness.task_of(&run).await;
        let event = &task.news[0].1["event"]["activity_done"];
        assert_eq!(event["seq"], 1);
        assert!(!event["result"][word].is_null(), "{event}");
        assert_eq!(harness.state(&run.part(1)).await, None);
        harness.commit(&task, Vec::new(), completed("1")).await;
    }
    harness.on_activities().assert_counts([0, 0, 0, 0]).await;
}

pub async fn a_stale_activity_tells_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let slow = harness.on_activities().with_lease(SHORT);
    let run = harness.start_parked_run(|run| vec![activity(run, 1)]).await;
    let first = slow.claim_one().await;
    slow.expire_and_rescue(1).await;
    let second = slow.clone().with_lease(LONG).claim_one().await;
    assert_eq!(envelope(&second).crashes(), 1);
    assert_eq!(slow.try_settle(&first, done()).await, Verdict::LeaseLost);
    harness.no_task().await;
    slow.settle(&second, done()).await;
    assert_eq!(slow.try_settle(&second, done()).await, Verdict::LeaseLost);
    assert_eq!(harness.task_of(&run).await.news.len(), 1);
}

pub async fn an_activity_of_a_run_that_has_ended_tells_nobody(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| vec![activity(run, 1)]).await;
    let claimed = harness.on_activities().claim_one().await;
    harness.signal(&run, [1]).await;
    harness.commit(&harness.task_of(&run).await, Vec::new(), completed("1")).await;
    let length = harness.run(&run).await.length;
    harness.on_activities().settle(&claimed, done()).await;
    assert_eq!(harness.run(&run).await.length, length);
    harness.no_task().await;
}

pub async fn an_activity_that_is_not_wanted_any_more_is_cancelled(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| vec![activity(run, 1), activity(run, 2)]).await;
    let running = harness.on_activities().claim_one().await;
    harness.signal(&run, [1]).await;
    let task = harness.task_of(&run).await;
    let cancels = [1, 2].map(|seq| Effect::CancelJob(run.part(seq)));
    harness.commit(&task, cancels.to_vec(), AfterCommit::Running).await;
    harness.on_activities().claim_nothing().await;
    let held = harness.on_activities().extend(std::slice::from_ref(&running.lease)).await;
    assert_eq!(held, [tidemill_core::store::Extended::Cancelling]);
    harness.on_activities().settle(&running, Outcome::Cancelled).await;
    harness.on_activities().assert_counts([0, 0, 0, 0]).await;
}

pub async fn a_late_worker_cannot_commit(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let tasks = harness.on_tasks();
    let run = harness.start_run(order()).await;
    let late = harness.task_of(&run).await;
    tasks.expire_and_rescue(1).await;
    let second = harness.clone().with_lease(LONG).task_of(&run).await;
    let effects = || vec![activity(&run, 1)];
    assert_eq!(harness.try_commit(&late, effects(), completed("late")).await, Verdict::LeaseLost);
    assert_eq!((harness.run(&run).await.status, harness.journal(&run).await.len()), (RunStatus::Running, 1));
    harness.on_activities().claim_nothing().await;
    harness.commit(&second, effects(), AfterCommit::Running).await;
    assert_eq!(harness.try_commit(&second, effects(), AfterCommit::Running).await, Verdict::LeaseLost);
    assert_eq!(harness.journal(&run).await.len(), 2);
    assert_eq!(harness.on_activities().try_claim(5).await.len(), 1);
}

pub async fn a_commit_from_where_the_run_is_not_has_no_effect(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| Vec::new()).await;
    harness.signal(&run, [1]).await;
    let mut task = harness.task_of(&run).await;
    let cursor = std::mem::replace(&mut task.cursor, 0);
    assert_eq!(harness.try_commit(&task, vec![activity(&run, 1)], AfterCommit::Running).await, Verdict::LeaseLost);
    harness.on_activities().claim_nothing().await;
    // The event is still to be consumed, so there is a task for it.
    let again = harness.task_of(&run).await;
    assert_eq!((again.cursor, again.signals()), (cursor, vec![1]));
    harness.commit(&again, Vec::new(), AfterCommit::Running).await;
    harness.no_task().await;
}

pub async fn a_task_whose_worker_died_comes_back(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let run = harness.start_run(order()).await;
    let first = harness.task_of(&run).await;
    harness.signal(&run, [1]).await;
    harness.on_tasks().expire_and_rescue(1).await;
    let second = harness.clone().with_lease(LONG).task_of(&run).await;
    assert_eq!(envelope(&second.claimed).attempts(), 1);
    assert_eq!((second.cursor, second.news[0].1.clone()), (0, first.news[0].1.clone()));
}

pub async fn a_task_that_is_put_back_is_the_same_and_events_wait_for_it(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let task = harness.task_of(&run).await;
    harness.on_tasks().settle(&task.claimed, Outcome::Snooze(Duration::from_millis(300))).await;
    assert_eq!(harness.state(&run.task()).await, Some(JobState::Scheduled));
    harness.signal(&run, [1]).await;
    assert_eq!(harness.state(&run.task()).await, Some(JobState::Scheduled));
    let claimed = harness.on_tasks().claim_when_due(1).await.remove(0);
    let again = super::harness::ClaimedTask::new(claimed);
    assert_eq!(again.news[0].1, task.news[0].1);
    harness.commit(&again, Vec::new(), AfterCommit::Running).await;
    if again.signals().is_empty() {
        assert_eq!(harness.task_of(&run).await.signals(), [1]);
    }
}

pub async fn a_dead_task_waits_for_a_redrive(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let task = harness.task_of(&run).await;
    harness.on_tasks().settle(&task.claimed, super::harness::dead("poison")).await;
    assert_eq!(harness.state(&run.task()).await, Some(JobState::Dead));
    harness.signal(&run, [1]).await;
    harness.no_task().await;
    let letters = tidemill_core::dead_letter::redrive::DeadLetterFilter::default();
    tidemill_core::dead_letter::redrive::redrive(&*harness.store, &harness.on_tasks().queue, &letters).await.unwrap();
    let again = harness.task_of(&run).await;
    harness.commit(&again, Vec::new(), AfterCommit::Running).await;
    if again.signals().is_empty() {
        assert_eq!(harness.task_of(&run).await.signals(), [1]);
    }
}

pub async fn commits_of_many_runs_go_together(subject: StoreUnderTest) {
    let harness = subject.harness();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        harness.start_run(order()).await;
        tasks.push(harness.task().await);
    }
    let effects = |task: &super::harness::ClaimedTask| vec![activity(&task.run, 1)];
    let mut batch: Vec<_> = tasks.iter().map(|t| t.settlement(effects(t), AfterCommit::Running)).collect();
    batch.push(tasks[3].settlement(effects(&tasks[3]), AfterCommit::Running));
    let verdicts = harness.store.settle(SettleParams::current(&batch)).await.unwrap();
    assert!(verdicts[..20].iter().all(|verdict| *verdict == Verdict::Accepted));
    assert_eq!(verdicts[20], Verdict::LeaseLost);
    assert_eq!(harness.on_activities().claim(20).await.len(), 20);
}

pub async fn many_activities_of_one_run_may_end_in_one_batch(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| (1..=50).map(|seq| activity(run, seq)).collect()).await;
    let activities = harness.on_activities();
    let claimed = activities.claim(50).await;
    let batch: Vec<_> = claimed.iter().map(|claimed| activities.settlement(claimed, done())).collect();
    assert_eq!(harness.store.settle(SettleParams::current(&batch)).await.unwrap(), vec![Verdict::Accepted; 50]);
    let mut seqs = Vec::new();
    while seqs.len() < 50 {
        let task = harness.task_of(&run).await;
        seqs.extend(task.news.iter().map(|(_, e)| e["event"]["activity_done"]["seq"].as_u64().unwrap()));
        harness.commit(&task, Vec::new(), AfterCommit::Running).await;
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=50).collect::<Vec<_>>());
    harness.no_task().await;
}

pub async fn a_commit_may_ask_for_ten_thousand_things(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness
        .start_parked_run(|run| (1..=10_000).map(|seq| if seq % 2 == 0 { activity(run, seq) } else { never(seq) }).collect())
        .await;
    assert!(harness.run(&run).await.next_timer.is_some());
    assert_eq!(harness.on_activities().counts().await.ready, 5000);
    assert_eq!(harness.terminate(&run, &[]).await, Verdict::Accepted);
}

fn never(seq: u64) -> Effect {
    super::harness::timer(seq, tidemill_core::Timestamp(4_000_000_000_000))
}

pub async fn an_answer_is_kept_for_whoever_asked(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let record = JobRecord {
        job: run.part("u1"),
        state: JobState::Done,
        output: Bytes::from_static(b"[1]"),
        error: None,
        finished_at: harness.store.clock().now(),
        keep: LONG,
    };
    harness.commit(&harness.task_of(&run).await, vec![Effect::Record(record)], AfterCommit::Running).await;
    let kept = harness.get(&run.part("u1")).await.unwrap().record.unwrap();
    assert_eq!((kept.state, &kept.output[..]), (JobState::Done, &b"[1]"[..]));
}

pub async fn a_journal_is_read_in_parts(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    harness.signal(&run, 0..30).await;
    let read = |from, limit| {
        let (harness, run) = (harness.clone(), run.clone());
        async move {
            let part = harness.store.read_journal(ReadJournalParams { run: &run, from, limit, bytes: 1 << 20 }).await.unwrap();
            part.into_iter().map(|(position, _)| position).collect::<Vec<_>>()
        }
    };
    assert_eq!(read(1, 3).await, [1, 2, 3]);
    assert_eq!(read(30, 10).await, [30, 31]);
    assert!(read(32, 10).await.is_empty());
    let whole = harness.store.read_journal(ReadJournalParams { run: &run, from: 1, limit: 100, bytes: 1 << 20 }).await.unwrap();
    assert_eq!(whole[1].1.kind, EntryKind::Message);
    let (first, now) = (&order_of(run.clone()).journal[0], harness.run(&run).await.started_at);
    assert_eq!((whole[0].1.kind, &whole[0].1.bytes), (first.kind, &with_timestamp(&first.bytes, now)));
}

pub async fn a_run_may_begin_where_another_was(subject: StoreUnderTest) {
    let harness = subject.harness();
    let commit = tidemill_core::store::runs::encode_entry(tidemill_core::Timestamp(3), "commit", br#"{"upto":1}"#);
    let mut new = order();
    new.journal.push(tidemill_core::store::runs::StoredEntry { kind: EntryKind::Commit, bytes: commit });
    new.journal.push(event(EntryKind::Message, r#"{"signal":{"name":"n","payload":9}}"#));
    new.cursor = 1;
    new.effects = vec![activity(&new.run, 1)];
    let run = harness.start_run(new).await;
    let task = harness.task_of(&run).await;
    assert_eq!((task.cursor, task.news.len(), task.signals()), (1, 1, vec![9]));
    assert_eq!(harness.on_activities().claim_one().await.lease.job, run.part(1));
    assert_eq!(harness.run(&run).await.length, 3);
    let times: Vec<_> = harness.journal(&run).await.iter().map(|(_, entry)| entry["at"].as_i64()).collect();
    assert_eq!(times[..2], [Some(1), Some(3)], "what was consumed is replayed as it was");
    assert!(times[2] >= Some(harness.run(&run).await.started_at.0), "what is new has come now");
}

/// Timers are counted from the time of an entry. Whoever sends an event may have a wrong clock; here each says it is 1970.
pub async fn the_store_writes_its_own_time_into_a_journal(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| vec![activity(run, 1)]).await;
    harness.signal(&run, [1]).await;
    let told = harness.on_activities().claim_one().await;
    let written = event(EntryKind::CommandResult, r#"{"activity_done":{"seq":1,"result":{"ok":1}}}"#);
    let delivery = Delivery { run: run.clone(), entry: written, id: None, seq: Some(1) };
    let change = Change::Deliver(Box::new(delivery));
    let settled = harness.store.settle(SettleParams::current(&[Settlement { lease: told.lease, change }])).await.unwrap();
    assert_eq!(settled, [Verdict::Accepted]);
    let started = harness.run(&run).await.started_at.0;
    let check = |journal: Vec<(u64, serde_json::Value)>| {
        for (position, entry) in journal {
            assert!(entry["at"].as_i64() >= Some(started), "{position}: {entry}");
        }
    };
    check(harness.journal(&run).await);
    let task = harness.task_of(&run).await;
    check(task.news.clone());
    let restart = ContinueAsNew { first: order().journal.remove(0).bytes, id_retention: DELIVERY_ID_RETENTION };
    harness.commit(&task, Vec::new(), AfterCommit::ContinueAsNew(restart)).await;
    check(harness.journal(&run).await);
}

pub async fn many_callers_at_once_lose_and_double_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| (1..=40).map(|seq| activity(run, seq)).collect()).await;
    let stores = join_all((0..4).map(|_| subject.other_connection())).await;
    let work = async {
        let tasks = stores.iter().enumerate().map(|(index, store)| {
            let (harness, run) = (harness.with_store(store.clone()), run.clone());
            async move {
                for number in 0..10 {
                    assert_eq!(harness.deliver(signal(&run, index as u64 * 100 + number)).await, Delivered::Yes);
                    let claimed = harness.on_activities().claim_one().await;
                    harness.on_activities().settle(&claimed, done()).await;
                }
            }
        });
        join_all(tasks).await;
    };
    let ((), mut seen) = tokio::join!(work, async {
        let mut seen = Vec::new();
        while seen.len() < 80 {
            let task = harness.task_of(&run).await;
            seen.extend(task.news.iter().map(|(_, entry)| entry["event"].to_string()));
            harness.commit(&task, Vec::new(), AfterCommit::Running).await;
        }
        seen
    });
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 80);
    harness.no_task().await;
    assert_eq!(harness.deliver(answer(&run, 99)).await, Delivered::Yes);
}

//! Limits of runs: bytes of tasks and journals, ids of deliveries, ended runs.

use std::time::Duration;

use tidemill_core::store::runs::{
    ConflictPolicy, Delivered, Delivery, Effect, EntryKind, MAX_TASK_EVENT_BYTES, MAX_REMEMBERED_DELIVERIES, StartRunParams, PruneRunsParams, ReadJournalParams,
    ContinueAsNew, RunKey, DELIVERY_ID_RETENTION, StartRunResult, AfterCommit,
};
use tidemill_core::Timestamp;
use tidemill_core::store::Verdict;
use tidemill_core::workflow::{RunId, RunStatus};

use super::harness::{LONG, activity, completed, event, order, order_of, signal, timer, until};
use super::{QueueHarness, StoreUnderTest};

/// A signal with a number and about this many bytes.
fn heavy(run: &RunId, number: u64, bytes: usize) -> Delivery {
    let weight = "x".repeat(bytes);
    let json = format!(r#"{{"signal":{{"name":"n","payload":{number},"weight":"{weight}"}}}}"#);
    Delivery { entry: event(EntryKind::Message, &json), ..signal(run, number) }
}

async fn deliver_heavy(harness: &QueueHarness, run: &RunId, count: u64, bytes: usize) {
    for number in 0..count {
        assert_eq!(harness.deliver(heavy(run, number, bytes)).await, Delivered::Yes);
    }
}

pub async fn a_task_ends_with_the_event_that_fills_it_and_the_rest_come_with_the_next(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    deliver_heavy(&harness, &run, 10, MAX_TASK_EVENT_BYTES * 2 / 5).await;
    assert_eq!(harness.deliver(heavy(&run, 10, MAX_TASK_EVENT_BYTES * 2)).await, Delivered::Yes);
    harness.signal(&run, [11]).await;
    let mut shares: Vec<Vec<u64>> = Vec::new();
    while shares.concat().len() < 12 {
        let task = harness.task_of(&run).await;
        harness.commit(&task, Vec::new(), AfterCommit::Running).await;
        shares.push(task.signals());
    }
    assert_eq!(shares, [vec![], vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8], vec![9, 10], vec![11]]);
    harness.no_task().await;
}

pub async fn a_journal_is_read_up_to_so_many_bytes(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    for (number, bytes) in [10, 5_000, 10, 40_000, 10, 10, 300].into_iter().enumerate() {
        assert_eq!(harness.deliver(heavy(&run, number as u64, bytes)).await, Delivered::Yes);
    }
    harness.signal(&run, 7..60).await;
    let read = |from, limit, bytes| {
        let (harness, run) = (harness.clone(), run.clone());
        async move { harness.store.read_journal(ReadJournalParams { run: &run, from, limit, bytes }).await.unwrap() }
    };
    let whole = read(1, 1_000, usize::MAX).await;
    assert_eq!(whole.len(), 61);
    for (limit, bytes) in [(1_000, 0), (1_000, 1), (1_000, 1_000), (2, 1_000), (1_000, 45_000), (7, 6_000)] {
        let mut rest = &whole[..];
        while let Some((from, _)) = rest.first() {
            let part = read(*from, limit, bytes).await;
            let (last, before) = part.split_last().expect("there is always one");
            let size: usize = before.iter().map(|(_, written)| written.bytes.len()).sum();
            assert!(before.is_empty() || size < bytes, "it should have ended before: {size} of {bytes}");
            let is_full = size + last.1.bytes.len() >= bytes || part.len() == limit;
            assert!(is_full || part.len() == rest.len(), "it should have gone on after {}", last.0);
            assert_eq!(part, rest[..part.len()]);
            rest = &rest[part.len()..];
        }
    }
}

pub async fn a_run_begins_again_however_much_it_has_not_seen(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let task = harness.task_of(&run).await;
    deliver_heavy(&harness, &run, 50, MAX_TASK_EVENT_BYTES / 20).await;
    harness.commit(&task, Vec::new(), restarts(DELIVERY_ID_RETENTION)).await;
    assert_eq!(harness.run(&run).await.length, 51 + 51);
    let mut seen = Vec::new();
    while seen.len() < 50 {
        let task = harness.task_of(&run).await;
        assert!(task.news.len() <= 21);
        seen.extend(task.signals());
        harness.commit(&task, Vec::new(), AfterCommit::Running).await;
    }
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    let journal = harness.journal(&run).await;
    assert_eq!(journal[0].0, 52, "what was before is gone");
}

fn restarts(seen_for: Duration) -> AfterCommit {
    let json = r#"{"started":{"workflow":"order","version":"1.0.0","input":1,"continued":1}}"#;
    AfterCommit::ContinueAsNew(ContinueAsNew { first: event(EntryKind::CommandResult, json).bytes, id_retention: seen_for })
}

fn once(run: &RunId, id: impl ToString) -> Delivery {
    Delivery { id: Some(id.to_string()), ..signal(run, 1) }
}

async fn moment() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

async fn begin_again(harness: &QueueHarness, run: &RunId, seen_for: Duration) {
    moment().await;
    let task = harness.task_of(run).await;
    harness.commit(&task, Vec::new(), restarts(seen_for)).await;
}

pub async fn ids_of_deliveries_outlive_a_new_beginning_but_not_for_ever(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    assert_eq!(harness.deliver(once(&run, "first")).await, Delivered::Yes);
    moment().await;
    assert_eq!(harness.deliver(once(&run, "second")).await, Delivered::Yes);
    for seen_for in [DELIVERY_ID_RETENTION, Duration::ZERO, Duration::MAX] {
        begin_again(&harness, &run, seen_for).await;
        assert_eq!(harness.deliver(once(&run, "first")).await, Delivered::Duplicate, "they are not many");
    }
    moment().await;
    let many: Vec<_> = (2..=MAX_REMEMBERED_DELIVERIES).map(|number| once(&run, number)).collect();
    for part in many.chunks(100) {
        assert_eq!(harness.store.deliver(part).await.unwrap(), vec![Delivered::Yes; part.len()]);
    }
    begin_again(&harness, &run, DELIVERY_ID_RETENTION).await;
    assert_eq!(harness.deliver(once(&run, "first")).await, Delivered::Duplicate, "they are not old");
    begin_again(&harness, &run, Duration::ZERO).await;
    let answers = harness.store.deliver(&["second", "2", "1000", "first"].map(|id| once(&run, id))).await;
    assert_eq!(answers.unwrap(), [Delivered::Duplicate, Delivered::Duplicate, Delivered::Duplicate, Delivered::Yes]);
}

pub async fn what_was_delivered_before_the_end_has_been_delivered_after_it_too(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    assert_eq!(harness.deliver(once(&run, "a")).await, Delivered::Yes);
    harness.commit(&harness.task_of(&run).await, Vec::new(), completed("1")).await;
    let length = harness.run(&run).await.length;
    let answers = harness.store.deliver(&[once(&run, "a"), once(&run, "b"), once(&run, "b"), signal(&run, 1)]).await;
    let closed = Delivered::Closed(RunStatus::Completed);
    assert_eq!(answers.unwrap(), [Delivered::Duplicate, closed, closed, closed]);
    assert_eq!(harness.run(&run).await.length, length);
    harness.no_task().await;
}

async fn end(harness: &QueueHarness, new: StartRunParams) -> RunId {
    let run = harness.start_run(new).await;
    harness.commit(&harness.task_of(&run).await, Vec::new(), completed("1")).await;
    run
}

pub async fn a_run_that_has_only_just_ended_is_not_one_too_many(subject: StoreUnderTest) {
    let harness = subject.harness();
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(end(&harness, order()).await);
        moment().await;
    }
    let brief = end(&harness, StartRunParams { keep: Duration::from_millis(1), ..order() }).await;
    let young = PruneRunsParams { max_kept: 1, min_age: Duration::from_secs(3_600) };
    until("a run whose own time is over to go", || async {
        harness.store.prune_runs(young).await.unwrap();
        harness.store.get_run(&brief).await.unwrap().is_none().then_some(())
    })
    .await;
    for run in &runs {
        assert!(harness.store.get_run(run).await.unwrap().is_some());
    }
    let old = PruneRunsParams { max_kept: 1, min_age: Duration::from_millis(1) };
    until("the others to be old enough", || async {
        harness.store.prune_runs(old).await.unwrap();
        harness.store.get_run(&runs[1]).await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(harness.store.get_run(&runs[0]).await.unwrap().is_none());
    assert!(harness.store.get_run(&runs[2]).await.unwrap().is_some());
}

pub async fn a_run_whose_time_is_over_makes_way_before_it_is_pruned(subject: StoreUnderTest) {
    let harness = subject.harness();
    let keep = Duration::from_millis(50);
    let gone = end(&harness, StartRunParams { keep, ..order() }).await;
    start_when_it_is_over(&harness, || order_of(gone.clone())).await;
    let task = harness.task_of(&gone).await;
    assert_eq!((task.cursor, task.last()), (0, 1));
    assert_eq!(harness.journal(&gone).await.len(), 1);
    for conflict in [ConflictPolicy::UseExisting, ConflictPolicy::Reject, ConflictPolicy::StartAfterClose] {
        let keyed = || {
            let run = RunId::keyed(&order().workflow, "k");
            StartRunParams { keep, key: Some(RunKey { key: "k".to_owned(), conflict }), ..order_of(run) }
        };
        let first = end(&harness, keyed()).await;
        let second = start_when_it_is_over(&harness, keyed).await;
        assert_ne!(first, second);
        harness.commit(&harness.task_of(&second).await, Vec::new(), completed("1")).await;
        tokio::time::sleep(keep + Duration::from_millis(10)).await;
    }
}

async fn start_when_it_is_over(harness: &QueueHarness, new: impl Fn() -> StartRunParams) -> RunId {
    until("a run to make way", || async {
        let new = new();
        (harness.store.start_run(&new).await.unwrap() == StartRunResult::Created).then_some(new.run)
    })
    .await
}

/// More than a store does in one step, if it works in steps.
pub async fn very_many_effects_of_one_commit_all_take_place(subject: StoreUnderTest) {
    const MANY: u64 = 600;
    let harness = subject.harness();
    let far = harness.after(100 * LONG);
    let both = |run: &RunId, due| (1..=MANY).flat_map(|seq| [activity(run, seq), timer(MANY + seq, due)]).collect();
    let run = harness.start_parked_run(|run| both(run, far)).await;
    harness.on_activities().assert_counts([MANY, 0, 0, 0]).await;
    assert_eq!(harness.run(&run).await.next_timer, Some(far));
    harness.no_task().await;
    // All of it is undone by one commit, by which the run begins again: no alarm of the old journal reaches the new one.
    harness.signal(&run, [1]).await;
    let task = harness.task_of(&run).await;
    let cancels: Vec<Effect> = (1..=MANY).map(|seq| Effect::CancelJob(run.part(seq))).collect();
    harness.commit(&task, cancels.clone(), restarts(DELIVERY_ID_RETENTION)).await;
    harness.on_activities().assert_counts([0, 0, 0, 0]).await;
    assert_eq!(harness.run(&run).await.next_timer, None);
    // Many alarms come due while the run ends.
    let task = harness.task_of(&run).await;
    harness.commit(&task, both(&run, Timestamp(1)), AfterCommit::Running).await;
    harness.promote().await;
    assert_eq!(harness.terminate(&run, &cancels).await, Verdict::Accepted);
    harness.on_activities().assert_counts([0, 0, 0, 0]).await;
    harness.promote().await;
    harness.no_task().await;
    assert_eq!(harness.run(&run).await.status, RunStatus::Terminated);
}

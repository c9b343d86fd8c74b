//! Timers, restarts and ends of runs, and listing them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidemill_core::Timestamp;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::runs::{
    RunTimer, Delivered, Delivery, Effect, EntryKind, ListRunsParams, StartRunParams, ParentRef, PruneRunsParams, ContinueAsNew, RunKey,
    DELIVERY_ID_RETENTION, StartRunResult, TerminateParams, AfterCommit,
};
use tidemill_core::store::{SettleParams, Due, PromoteParams, Verdict};
use tidemill_core::wake::{Wake, WakeStream};
use tidemill_core::workflow::{Json, RunId, RunStatus, Topic, WorkflowName};

use super::cleanup::assert_nothing_is_left;
use super::harness::{
    activity, answer, completed, completed_for, done, event, order, order_of, signal, timer, until,
};
use super::{QueueHarness, StoreUnderTest};

pub async fn an_alarm_tells_the_run_when_its_time_has_come_and_not_before(subject: StoreUnderTest) {
    let harness = subject.harness();
    let due = harness.after(Duration::from_millis(300));
    let run = harness.start_parked_run(|_| vec![timer(1, due), timer(2, Timestamp(4_000_000_000_000))]).await;
    assert_eq!(harness.run(&run).await.next_timer, Some(due));
    let next = harness.promote().await.next.expect("an alarm is ahead");
    assert!(next <= Duration::from_millis(300), "{next:?}");
    let task = harness.task_when_due().await;
    assert!(harness.store.clock().now() >= due);
    assert_eq!((task.run.clone(), task.news.len()), (run.clone(), 1));
    assert_eq!(task.news[0].1["event"]["timer_fired"]["seq"], 1);
    assert!(task.news[0].1["at"].as_i64().unwrap() >= due.0);
    harness.commit(&task, Vec::new(), AfterCommit::Running).await;
    harness.promote().await;
    harness.no_task().await;
    assert_eq!(harness.run(&run).await.next_timer, Some(Timestamp(4_000_000_000_000)));
}

pub async fn an_alarm_that_is_past_fires_at_once(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| vec![timer(1, Timestamp(0)), timer(2, Timestamp(1))]).await;
    let mut seqs = Vec::new();
    while seqs.len() < 2 {
        let task = harness.task_when_due().await;
        assert_eq!(task.run, run);
        seqs.extend(task.news.iter().map(|(_, entry)| entry["event"]["timer_fired"]["seq"].as_u64().unwrap()));
        harness.commit(&task, Vec::new(), AfterCommit::Running).await;
    }
    assert_eq!(seqs, [1, 2]);
}

pub async fn an_activity_that_is_not_done_in_time_is_told_of(subject: StoreUnderTest) {
    let harness = subject.harness();
    let delay = Duration::from_millis(300);
    let alarm = Effect::SetTimer { seq: 1, due: Due::In(delay), timer: RunTimer::ScheduleToClose };
    let run = harness.start_parked_run(|run| vec![activity(run, 1), alarm]).await;
    let info = harness.run(&run).await;
    let due = info.next_timer.expect("an alarm is ahead");
    assert!(due >= info.started_at.after(delay), "{due:?} is counted from the commit, by the store's clock");
    let task = harness.task_when_due().await;
    assert_eq!(task.run, run);
    let event = &task.news[0].1["event"]["activity_done"];
    assert_eq!(event["result"]["failed"]["kind"]["timed_out"], "schedule_to_close");
}

pub async fn an_alarm_is_dropped_by_command_and_by_the_answer(subject: StoreUnderTest) {
    let harness = subject.harness();
    let soon = harness.after(Duration::from_millis(200));
    let late = |seq| Effect::SetTimer { seq, due: Due::At(soon), timer: RunTimer::ScheduleToClose };
    let run = harness.start_parked_run(|run| vec![activity(run, 1), late(1), late(2), timer(3, soon)]).await;
    let claimed = harness.on_activities().claim_one().await;
    harness.on_activities().settle(&claimed, done()).await;
    assert_eq!(harness.deliver(answer(&run, 2)).await, Delivered::Yes);
    let task = harness.task_of(&run).await;
    let seen = task.news.len();
    harness.commit(&task, vec![Effect::CancelTimer { seq: 3 }], AfterCommit::Running).await;
    assert_eq!(harness.run(&run).await.next_timer, None);
    tokio::time::sleep(Duration::from_millis(250)).await;
    harness.promote().await;
    let length = harness.run(&run).await.length;
    assert_eq!(length, 5, "one entry at first, two answers, two commits; {seen} were seen at once");
}

pub async fn alarms_fire_once_whoever_promotes(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| (1..=50).map(|seq| timer(seq, Timestamp(seq as i64))).collect()).await;
    let stores = join_all((0..4).map(|_| subject.other_connection())).await;
    let queues = [harness.queue.clone()];
    until("all alarms to fire", || async {
        let promotes = stores.iter().map(|store| store.promote(PromoteParams { queues: &queues, limit: 10 }));
        join_all(promotes).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        harness.run(&run).await.next_timer.is_none().then_some(())
    })
    .await;
    let journal = harness.journal(&run).await;
    let fired: Vec<_> =
        journal.iter().filter_map(|(_, entry)| entry["event"]["timer_fired"]["seq"].as_u64()).collect();
    assert_eq!(fired, (1..=50).collect::<Vec<_>>());
}

pub async fn whoever_sleeps_until_an_alarm_hears_of_an_earlier_one(subject: StoreUnderTest) {
    let harness = subject.harness();
    harness.start_parked_run(|_| vec![timer(1, Timestamp(4_000_000_000_000))]).await;
    let mut wakes = subject.store.subscribe();
    for n in 0..50 {
        // Each is earlier than the one before: only then is it announced.
        harness.start_parked_run(|_| vec![timer(1, Timestamp(3_000_000_000_000 - n))]).await;
        if hears(&mut wakes, |wake| *wake == Wake::DueEarlier(order().queue)).await {
            return;
        }
    }
    panic!("the promoter would have slept on");
}

/// Whether a wake-up arrives soon. It may be lost, so the action is repeated.
async fn hears(wakes: &mut WakeStream, mut wanted: impl FnMut(&Wake) -> bool) -> bool {
    let heard = async { while !wanted(&wakes.next().await.unwrap_or(Wake::Everything)) {} };
    tokio::time::timeout(Duration::from_millis(200), heard).await.is_ok()
}

/// Prunes ended runs beyond this many.
fn beyond(most: u64) -> PruneRunsParams {
    PruneRunsParams { max_kept: most, min_age: Duration::ZERO }
}

fn restarts(input: u64) -> AfterCommit {
    let json =
        format!(r#"{{"started":{{"workflow":"order","version":"1.0.0","input":{input},"continued":1}}}}"#);
    AfterCommit::ContinueAsNew(ContinueAsNew { first: event(EntryKind::CommandResult, &json).bytes, id_retention: DELIVERY_ID_RETENTION })
}

pub async fn a_run_that_begins_again_has_a_new_journal_and_the_messages_it_did_not_see(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| vec![timer(1, Timestamp(4_000_000_000_000))]).await;
    harness.signal(&run, [1]).await;
    let task = harness.task_of(&run).await;
    harness.signal(&run, [2]).await;
    assert_eq!(harness.deliver(answer(&run, 7)).await, Delivered::Yes);
    harness.signal(&run, [3]).await;
    let before = harness.run(&run).await.length;
    harness.commit(&task, Vec::new(), restarts(8)).await;
    let next = harness.task_of(&run).await;
    assert_eq!(next.news[0].1["event"]["started"]["input"], 8);
    assert_eq!((next.signals(), next.news.len()), (vec![2, 3], 3));
    assert!(next.cursor >= before, "positions go on");
    assert_eq!(harness.journal(&run).await, next.news);
    let info = harness.run(&run).await;
    assert_eq!((info.status, info.length, info.next_timer), (RunStatus::Running, next.last(), None));
    harness.commit(&next, Vec::new(), restarts(9)).await;
    let third = harness.task_of(&run).await;
    assert_eq!((third.news.len(), third.signals()), (1, vec![]));
    harness.commit(&third, Vec::new(), completed("1")).await;
    harness.no_task().await;
}

pub async fn a_signal_that_races_with_a_new_beginning_is_neither_lost_nor_doubled(subject: StoreUnderTest) {
    let harness = subject.harness();
    let other = subject.other_connection().await;
    let run = harness.start_run(order()).await;
    let sender = async {
        for number in 0..50 {
            assert_eq!(harness.with_store(other.clone()).deliver(signal(&run, number)).await, Delivered::Yes);
        }
    };
    let ((), seen) = tokio::join!(sender, async {
        let mut seen = Vec::new();
        while seen.len() < 50 {
            let task = harness.task_of(&run).await;
            seen.extend(task.signals());
            harness.commit(&task, Vec::new(), restarts(1)).await;
        }
        seen
    });
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}

pub async fn a_run_that_has_ended_says_how(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let task = harness.task_of(&run).await;
    harness.commit(&task, vec![timer(1, Timestamp(4_000_000_000_000))], completed(r#"{"sum":3}"#)).await;
    let info = harness.run(&run).await;
    assert_eq!((info.status, &info.output[..]), (RunStatus::Completed, &br#"{"sum":3}"#[..]));
    assert!(info.closed_at.is_some() && info.error.is_none() && info.next_timer.is_none());
    assert_eq!(harness.journal(&run).await.len(), 2);
}

pub async fn the_end_of_a_run_is_announced(subject: StoreUnderTest) {
    let harness = subject.harness();
    let mut wakes = subject.store.subscribe();
    for _ in 0..50 {
        let run = harness.start_run(order()).await;
        harness.commit(&harness.task_of(&run).await, Vec::new(), completed("1")).await;
        if hears(&mut wakes, |wake| *wake == Wake::Finished(run.task())).await {
            return;
        }
    }
    panic!("nobody was told of the end");
}

fn child_of(parent: &ParentRef) -> StartRunParams {
    StartRunParams { parent: Some(parent.clone()), ..order_of(parent.run.child(parent.seq)) }
}

pub async fn a_parent_is_told_of_its_childs_end_in_the_same_step(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| Vec::new()).await;
    let parent = ParentRef { run: run.clone(), seq: 1 };
    let child = harness.start_run(child_of(&parent)).await;
    assert!(subject.store.same_shard(&run, &child));
    assert_eq!(harness.run(&child).await.parent, Some(parent.clone()));
    harness.commit(&harness.task_of(&child).await, Vec::new(), completed_for(&parent, "5")).await;
    let task = harness.task_of(&run).await;
    assert_eq!(task.news[0].1["event"]["child_done"]["result"]["ok"], 5);
}

pub async fn parents_and_children_that_end_at_once_do_not_stand_in_each_others_way(subject: StoreUnderTest) {
    let harness = subject.harness();
    let mut settlements = Vec::new();
    for _ in 0..30 {
        let run = harness.start_run(order()).await;
        let own = harness.task_of(&run).await;
        let parent = ParentRef { run, seq: 1 };
        let child = harness.start_run(child_of(&parent)).await;
        let task = harness.task_of(&child).await;
        settlements.push(own.settlement(Vec::new(), completed("1")));
        settlements.push(task.settlement(Vec::new(), completed_for(&parent, "1")));
    }
    let stores = join_all((0..4).map(|_| subject.other_connection())).await;
    let shares: Vec<Vec<Settlement>> =
        (0..4).map(|n| settlements.iter().skip(n).step_by(4).cloned().rev().collect()).collect();
    let settles = stores.iter().zip(&shares).map(|(store, share)| store.settle(SettleParams::current(share)));
    for verdicts in join_all(settles).await {
        assert!(verdicts.unwrap().iter().all(|verdict| *verdict == Verdict::Accepted));
    }
    for settlement in &settlements {
        let Change::Commit(commit) = &settlement.change else { panic!() };
        assert_eq!(harness.run(&commit.run).await.status, RunStatus::Completed);
    }
}

pub async fn a_run_is_terminated_wherever_it_is(subject: StoreUnderTest) {
    let harness = subject.harness();
    let waiting = harness.start_run(order()).await;
    assert_eq!(harness.terminate(&waiting, &[]).await, Verdict::Accepted);
    harness.no_task().await;
    let parked = harness.start_parked_run(|run| vec![activity(run, 1), timer(2, Timestamp(4_000_000_000_000))]).await;
    let cancel = [Effect::CancelJob(parked.part(1))];
    assert_eq!(harness.terminate(&parked, &cancel).await, Verdict::Accepted);
    harness.on_activities().claim_nothing().await;
    let running = harness.start_run(order()).await;
    let task = harness.task_of(&running).await;
    assert_eq!(harness.terminate(&running, &[]).await, Verdict::Accepted);
    assert_eq!(harness.try_commit(&task, vec![activity(&running, 1)], AfterCommit::Running).await, Verdict::LeaseLost);
    harness.on_activities().claim_nothing().await;
    for run in [waiting, parked, running] {
        let info = harness.run(&run).await;
        assert_eq!((info.status, info.error.as_deref()), (RunStatus::Terminated, Some("enough")));
        assert_eq!(info.next_timer, None);
        assert_eq!(harness.deliver(signal(&run, 1)).await, Delivered::Closed(RunStatus::Terminated));
        assert_eq!(harness.terminate(&run, &[]).await, Verdict::LeaseLost);
        assert_eq!(harness.state(&run.task()).await, None);
    }
}

pub async fn a_run_that_has_moved_on_is_not_terminated_by_who_has_not_seen_it(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_run(order()).await;
    let cursor = harness.run(&run).await.cursor;
    let task = harness.task_of(&run).await;
    harness.signal(&run, [1]).await;
    harness.commit(&task, Vec::new(), AfterCommit::Running).await;
    let AfterCommit::Close(close) = completed("1") else { panic!() };
    let late = TerminateParams { run: &run, cursor, effects: &[], close: &close };
    assert_eq!(harness.store.terminate(late).await.unwrap(), Verdict::LeaseLost);
    let nobody = RunId::generate();
    let missing = TerminateParams { run: &nobody, cursor: 0, effects: &[], close: &close };
    assert_eq!(harness.store.terminate(missing).await.unwrap(), Verdict::LeaseLost);
    assert_eq!(harness.run(&run).await.status, RunStatus::Running);
    // A message alone is no reason to continue it.
    let cursor = harness.run(&run).await.cursor;
    harness.signal(&run, [2, 3]).await;
    let seen = TerminateParams { run: &run, cursor, effects: &[], close: &close };
    assert_eq!(harness.store.terminate(seen).await.unwrap(), Verdict::Accepted);
}

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

fn json(text: &str) -> Json {
    Json::from_text(text).unwrap()
}

async fn found(harness: &QueueHarness, list: &ListRunsParams) -> Vec<RunId> {
    let (mut runs, mut cursor) = (Vec::new(), None);
    loop {
        let page = harness.store.list_runs(ListRunsParams { cursor, limit: 3, ..list.clone() }).await.unwrap();
        assert!(page.items.len() <= 3);
        runs.extend(page.items.into_iter().map(|info| info.run));
        cursor = page.next;
        if cursor.is_none() {
            return runs;
        }
    }
}

pub async fn runs_are_listed_newest_first_page_by_page(subject: StoreUnderTest) {
    let harness = subject.harness();
    let mut runs = Vec::new();
    for _ in 0..8 {
        runs.push(harness.start_run(order()).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    runs.reverse();
    assert_eq!(found(&harness, &ListRunsParams::default()).await, runs);
}

pub async fn runs_are_found_by_type_status_time_and_attribute(subject: StoreUnderTest) {
    let harness = subject.harness();
    let attributes = BTreeMap::from([(topic("city"), json("\"Kyiv\"")), (topic("n"), json("7"))]);
    let old = harness.start_run(StartRunParams { attributes, ..order() }).await;
    let ended = harness.task_of(&old).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let middle = harness.store.clock().now();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let invoice = StartRunParams { workflow: WorkflowName::new("invoice").unwrap(), ..order() };
    let other = harness.start_run(invoice).await;
    let more = BTreeMap::from([(topic("n"), json("8")), (topic("x"), json("{\"a\":[1]}"))]);
    harness.commit(&ended, vec![Effect::Attributes(more)], completed("1")).await;
    let all = ListRunsParams::default;
    let of_type = |name| ListRunsParams { workflow: WorkflowName::new(name).ok(), ..all() };
    let with = |name, text| ListRunsParams { attribute: Some((topic(name), json(text))), ..all() };
    let cases: [(ListRunsParams, &[&RunId]); 9] = [
        (of_type("order"), &[&old]),
        (of_type("none"), &[]),
        (ListRunsParams { status: Some(RunStatus::Running), ..all() }, &[&other]),
        (ListRunsParams { status: Some(RunStatus::Completed), ..all() }, &[&old]),
        (ListRunsParams { since: Some(middle), ..all() }, &[&other]),
        (ListRunsParams { before: Some(middle), ..all() }, &[&old]),
        (with("n", "8"), &[&old]),
        (with("n", "7"), &[]),
        (with("city", "\"Kyiv\""), &[&old]),
    ];
    for (list, expected) in cases {
        let about = format!("{list:?}");
        let found = found(&harness, &list).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{about}");
    }
    let info = harness.run(&old).await;
    let texts: Vec<_> = info.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(texts, [("city", "\"Kyiv\""), ("n", "8"), ("x", "{\"a\":[1]}")]);
}

pub async fn closed_runs_expire_by_age(subject: StoreUnderTest) {
    let harness = subject.harness();
    let brief = StartRunParams { keep: Duration::from_millis(100), ..order() };
    let gone = harness.start_run(brief).await;
    harness.commit(&harness.task_of(&gone).await, Vec::new(), completed("1")).await;
    let kept = harness.start_run(order()).await;
    harness.commit(&harness.task_of(&kept).await, Vec::new(), completed("1")).await;
    let open = harness.start_parked_run(|_| Vec::new()).await;
    until("a run to expire", || async {
        harness.store.prune_runs(beyond(100)).await.unwrap();
        harness.store.get_run(&gone).await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(harness.journal(&gone).await.is_empty());
    assert!(harness.store.get_run(&kept).await.unwrap().is_some());
    assert!(harness.store.get_run(&open).await.unwrap().is_some());
    assert_eq!(found(&harness, &ListRunsParams::default()).await, [open, kept]);
    assert_eq!(harness.store.start_run(&order_of(gone.clone())).await.unwrap(), StartRunResult::Created);
}

pub async fn closed_runs_expire_by_count_and_open_ones_do_not(subject: StoreUnderTest) {
    let harness = subject.harness();
    let open = harness.start_parked_run(|_| Vec::new()).await;
    let mut closed = Vec::new();
    for _ in 0..6 {
        let run = harness.start_run(order()).await;
        harness.commit(&harness.task_of(&run).await, Vec::new(), completed("1")).await;
        closed.push(run);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    until("the oldest to go", || async {
        harness.store.prune_runs(beyond(2)).await.unwrap();
        let runs = found(&harness, &ListRunsParams::default()).await;
        (runs == [closed[5].clone(), closed[4].clone(), open.clone()]).then_some(())
    })
    .await;
}

pub async fn a_run_that_is_gone_leaves_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let brief = Duration::from_millis(50);
    let workflow = order().workflow;
    let key = RunKey { key: "k".to_owned(), conflict: tidemill_core::store::runs::ConflictPolicy::UseExisting };
    let new = StartRunParams {
        keep: brief,
        key: Some(key),
        attributes: BTreeMap::from([(topic("n"), json("1"))]),
        ..order_of(RunId::keyed(&workflow, "k"))
    };
    let run = harness.start_run(new).await;
    let task = harness.task_of(&run).await;
    let effects = vec![activity(&run, 1), activity(&run, 2), timer(3, Timestamp(4_000_000_000_000))];
    harness.commit(&task, effects, AfterCommit::Running).await;
    let once = Delivery { id: Some("once".to_owned()), ..signal(&run, 1) };
    assert_eq!(harness.deliver(once).await, Delivered::Yes);
    let claimed = harness.on_activities().claim_one().await;
    harness.on_activities().settle(&claimed, done()).await;
    let cancels = [1, 2].map(|seq| Effect::CancelJob(run.part(seq))).to_vec();
    let task = harness.task_of(&run).await;
    harness.commit(&task, cancels, completed("1")).await;
    let other = harness.start_run(StartRunParams { keep: brief, ..order() }).await;
    harness.terminate(&other, &[]).await;
    until("the runs to go", || async {
        harness.store.prune_runs(beyond(100)).await.unwrap();
        found(&harness, &ListRunsParams::default()).await.is_empty().then_some(())
    })
    .await;
    let queues = [harness.on_tasks().queue, harness.on_activities().queue];
    harness.store.leave(&harness.worker, &queues).await.unwrap();
    assert_nothing_is_left(&subject, &harness.on_tasks()).await;
    assert_nothing_is_left(&subject, &harness.on_activities()).await;
}

//! Runs on Redis: what other programs write and read, what a full server still does, and what is damaged.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead, redrive};
use tidemill_core::settle::Outcome;
use tidemill_core::store::runs::{
    AfterCommit, ContinueAsNew, DELIVERY_ID_RETENTION, Delivered, Delivery, Effect, EntryKind,
    ReadJournalParams, StartRunParams,
};
use tidemill_core::store::{
    Claimed, CompleteParams, Completed, Inspect, Jobs, NewJob, Queues, Runs, SettleParams, Verdict,
};
use tidemill_core::workflow::{RunId, RunStatus};
use tidemill_core::{Error, Namespace, Queue, QueueName, Store};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{
    ClaimedTask, activity, completed, dead, done, event, order, order_of, retry, signal, timer,
};
use tidemill_testkit::conformance::{QueueHarness, SHORT};
use tidemill_testkit::servers::Redis;

/// The message of another program that starts a run.
const MESSAGE: &str = r#"{"id":"run-123","workflowName":"order","version":"1.0.0","payload":{"orderId":"order-456","amount":99.99},"idempotencyKey":"order-456-process","createdAt":1234567890}"#;

/// A store without a namespace: keys are literally those of other programs.
struct Stage {
    redis: Redis,
    store: Arc<RedisStore>,
    scene: QueueHarness,
}

impl Stage {
    async fn new() -> Self {
        Self::with(|options| options).await
    }

    async fn with(set: impl FnOnce(RedisOptions) -> RedisOptions) -> Self {
        let redis = Redis::start().unwrap();
        let options = RedisOptions::parse(&redis.url()).unwrap().namespace(Namespace::new("").unwrap());
        let store = Arc::new(RedisStore::connect(set(options)).await.unwrap());
        let scene = QueueHarness::new(store.clone(), order().queue);
        Self { redis, store, scene }
    }

    /// Every key with all it holds, as bytes.
    async fn everything(&self) -> Vec<(String, redis::Value)> {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
        keys.sort();
        let mut all = Vec::new();
        for key in keys {
            all.push((key.clone(), redis::cmd("DUMP").arg(key).query_async(&mut connection).await.unwrap()));
        }
        all
    }

    fn ask(&self, command: &[&str]) -> String {
        self.redis.command(command).unwrap()
    }

    /// Claims the message that another program has written.
    async fn message(&self) -> Claimed {
        self.ask(&["XADD", "workflow:order", "*", "data", MESSAGE]);
        let claimed = self.scene.claim_one().await;
        assert_eq!(claimed.lease.job.as_str(), "run-123");
        assert_eq!(claimed.body.as_ref().unwrap().kind().as_str(), "workflow:order");
        claimed
    }

    async fn list(&self, command: &[&str]) -> Vec<redis::Value> {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await.unwrap()
    }

    async fn commands<T>(&self, of: impl Future<Output = T>) -> (u64, T) {
        let before = self.store.commands();
        let answer = of.await;
        (self.store.commands() - before, answer)
    }
}

fn run_123() -> StartRunParams {
    order_of(RunId::new("run-123").unwrap())
}

#[tokio::test]
async fn a_run_has_the_keys_that_other_programs_look_at() {
    let stage = Stage::new().await;
    let run = stage.scene.start_run(run_123()).await;
    assert_eq!(stage.ask(&["XLEN", "workflow:order"]), "1");
    let task = stage.scene.task_of(&run).await;
    let due = stage.scene.after(Duration::from_secs(60));
    stage.scene.commit(&task, vec![timer(1, due)], AfterCommit::Running).await;
    let state = stage.ask(&["GET", "instances-run-123"]);
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert_eq!((&state["cursor"], &state["length"]), (&1.into(), &2.into()));
    assert_eq!((&state["status"], &state["workflow"]), (&"running".into(), &"order".into()));
    let journal = format!("{:?}", stage.list(&["XRANGE", "events-run-123", "-", "+"]).await);
    assert!(journal.contains("1-0") && journal.contains("2-0") && journal.contains("started"), "{journal}");
    assert_eq!(stage.ask(&["ZSCORE", "timers", "run-123 1 t"]), due.0.to_string());
    assert_eq!(
        stage.list(&["XPENDING", "workflow:order", "tidemill-workers"]).await[0],
        redis::Value::Int(0)
    );
    let queues = stage.store.list_queues().await.unwrap();
    assert_eq!(queues.iter().map(|info| info.queue.name.as_str()).collect::<Vec<_>>(), ["workflow/order"]);
}

#[tokio::test]
async fn the_message_that_started_a_run_ends_without_its_task() {
    let stage = Stage::new().await;
    let message = stage.message().await;
    let run = stage.scene.start_run(run_123()).await;
    stage.scene.settle(&message, Outcome::Done(Bytes::new())).await;
    assert_eq!(stage.ask(&["XLEN", "workflow:order"]), "1");
    stage.scene.signal(&run, [1]).await;
    let task = stage.scene.task_of(&run).await;
    stage.scene.no_task().await;
    // Another, for the same run, while its task is running.
    stage.ask(&["XADD", "workflow:order", "*", "data", MESSAGE]);
    let again = stage.scene.claim_one().await;
    stage.scene.settle(&again, Outcome::Done(Bytes::new())).await;
    stage.scene.signal(&run, [2]).await;
    stage.scene.no_task().await;
    stage.scene.commit(&task, Vec::new(), AfterCommit::Running).await;
    let task = stage.scene.task_of(&run).await;
    assert_eq!(task.signals(), [1, 2]);
    stage.scene.commit(&task, Vec::new(), completed("1")).await;
    assert_eq!(stage.ask(&["XLEN", "workflow:order"]), "0");
    assert_eq!(stage.ask(&["EXISTS", "jobs"]), "0");
}

#[tokio::test]
async fn a_message_that_is_tried_again_or_dies_does_not_pass_for_the_task() {
    let stage = Stage::new().await;
    let message = stage.message().await;
    stage.scene.settle(&message, retry(Duration::ZERO)).await;
    let message = stage.scene.claim_one().await;
    assert_eq!(message.body.as_ref().unwrap().attempts(), 1);
    let run = stage.scene.start_run(run_123()).await;
    let task = stage.scene.task_of(&run).await;
    stage.scene.settle(&message, dead("bad")).await;
    stage.scene.commit(&task, Vec::new(), AfterCommit::Running).await;
    stage.scene.no_task().await;
    stage.scene.signal(&run, [1]).await;
    assert_eq!(redrive(&*stage.store, &stage.scene.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
    let mut claimed = stage.scene.claim(2).await;
    claimed.sort_by_key(|claimed| claimed.body.as_ref().unwrap().kind().as_str() == "workflow:order");
    stage.scene.settle(&claimed.pop().unwrap(), dead("bad")).await;
    assert_eq!(drop_dead(&*stage.store, &stage.scene.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
    stage.scene.signal(&run, [2]).await;
    stage.scene.no_task().await;
    stage.scene.commit(&ClaimedTask::new(claimed.pop().unwrap()), Vec::new(), AfterCommit::Running).await;
    assert_eq!(stage.scene.task_of(&run).await.signals(), [2]);
}

#[tokio::test]
async fn a_full_server_starts_and_tells_no_run_and_lets_running_ones_go_on() {
    let stage = Stage::new().await;
    let due = stage.scene.after(Duration::from_millis(1));
    let run = stage.scene.start_parked_run(|run| vec![activity(run, 1), timer(2, due)]).await;
    let ends = stage.scene.start_run(order()).await;
    let last = stage.scene.task_of(&ends).await;
    let claimed = stage.scene.on_activities().claim_one().await;
    let before = stage.ask(&["GET", &format!("instances-{run}")]);
    stage.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = stage.store.start_run(&order()).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    let refused = stage.store.deliver(&[signal(&run, 1)]).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    assert_eq!(stage.ask(&["GET", &format!("instances-{run}")]), before);
    stage.scene.on_activities().settle(&claimed, done()).await;
    let task = stage.scene.task_of(&run).await;
    assert_eq!(task.news[0].1["event"]["activity_done"]["seq"], 1);
    stage.scene.commit(&task, vec![activity(&run, 3)], AfterCommit::Running).await;
    stage.scene.commit(&last, Vec::new(), completed("1")).await;
    let task = stage.scene.task_when_due().await;
    assert_eq!(task.news[0].1["event"]["timer_fired"]["seq"], 2);
    assert_eq!(stage.scene.terminate(&run, &[]).await, Verdict::Accepted);
}

#[tokio::test]
async fn a_verb_is_one_trip_and_so_are_the_ends_of_a_batch() {
    let stage = Stage::new().await;
    // The first call of a script sends it.
    let warm = stage.scene.start_parked_run(|_| Vec::new()).await;
    stage.scene.signal(&warm, [0]).await;
    let task = stage.scene.task_of(&warm).await;
    stage.scene.commit(&task, Vec::new(), completed("0")).await;
    let [one, two] = [stage.scene.start_run(order()).await, stage.scene.start_run(order()).await];
    let (trips, _) = stage.commands(stage.scene.start_run(order())).await;
    assert_eq!(trips, 1);
    let tasks = [stage.scene.task_of(&one).await, stage.scene.task_of(&two).await];
    let first = tasks.iter().map(|task| task.settlement(vec![activity(&task.run, 1)], AfterCommit::Running));
    let (trips, verdicts) =
        stage.commands(stage.store.settle(SettleParams::current(&first.collect::<Vec<_>>()))).await;
    assert_eq!((trips, verdicts.unwrap()), (1, vec![Verdict::Accepted; 2]));
    let (trips, _) = stage.commands(stage.store.deliver(&[signal(&one, 1), signal(&two, 2)])).await;
    assert_eq!(trips, 1);
    let task = stage.scene.task().await;
    let activities = stage.scene.on_activities();
    let jobs = activities.claim(2).await;
    let mut batch: Vec<_> = jobs.iter().map(|job| activities.settlement(job, done())).collect();
    batch.push(
        ClaimedTask::new(stage.scene.claim_one().await.clone()).settlement(Vec::new(), AfterCommit::Running),
    );
    batch.push(task.settlement(Vec::new(), completed("1")));
    batch.rotate_left(1);
    let (trips, verdicts) = stage.commands(stage.store.settle(SettleParams::current(&batch))).await;
    assert_eq!((trips, verdicts.unwrap()), (1, vec![Verdict::Accepted; 4]));
}

#[tokio::test]
async fn one_lease_in_a_batch_twice_counts_once_whatever_the_ends_are() {
    let stage = Stage::new().await;
    let run = stage.scene.start_run(order()).await;
    let task = stage.scene.task_of(&run).await;
    let back = stage.scene.settlement(&task.claimed, Outcome::HandedBack);
    let commit = task.settlement(Vec::new(), completed("1"));
    let verdicts = stage.store.settle(SettleParams::current(&[back, commit])).await.unwrap();
    assert_eq!(verdicts, [Verdict::Accepted, Verdict::LeaseLost]);
    assert_eq!(stage.scene.run(&run).await.status, RunStatus::Running);
    stage.scene.task_of(&run).await;
}

#[tokio::test]
async fn an_activity_is_completed_from_outside_and_the_run_is_told() {
    let stage = Stage::new().await;
    let run = stage.scene.start_parked_run(|run| vec![activity(run, 1), activity(run, 2)]).await;
    let activities = stage.scene.on_activities();
    let running = activities.claim_one().await;
    for seq in [1, 2] {
        let job = run.part(seq);
        let info = stage.store.get_job(&job).await.unwrap().unwrap();
        let claimed =
            Claimed { body: Ok(tidemill_core::Envelope::read(info.data).unwrap()), ..running.clone() };
        let change = activities.settlement(&claimed, done()).change;
        let complete = || stage.store.complete(CompleteParams { job: &job, change: &change });
        assert_eq!(complete().await.unwrap(), Completed::Yes);
        assert_eq!(complete().await.unwrap(), Completed::NotFound);
    }
    assert_eq!(activities.try_settle(&running, done()).await, Verdict::LeaseLost);
    let news = stage.scene.task_of(&run).await.news.len();
    assert_eq!((news, stage.scene.run(&run).await.length), (1, 4));
}

#[tokio::test]
async fn an_at_most_once_activity_tells_its_run_also_of_the_death_of_its_worker() {
    let stage = Stage::new().await;
    let list = Queue::at_most_once(QueueName::new("pings").unwrap());
    let on_list = |run: &RunId, seq| match activity(run, seq) {
        Effect::Job { job, .. } => Effect::Job { queue: list.clone(), job: NewJob { ..job } },
        other => other,
    };
    let run =
        stage.scene.start_parked_run(|run| vec![on_list(run, 1), on_list(run, 2), on_list(run, 3)]).await;
    let worker = QueueHarness { queue: list.clone(), ..stage.scene.clone() };
    let first = worker.claim_one().await;
    worker.settle(&first, done()).await;
    let task = stage.scene.task_of(&run).await;
    assert_eq!(task.news[0].1["event"]["activity_done"]["seq"], 1);
    stage.scene.commit(&task, vec![Effect::CancelJob(run.part(3))], AfterCommit::Running).await;
    let mortal = worker.with_lease(SHORT);
    let second = mortal.claim_one().await;
    assert_eq!(second.lease.job, run.part(2));
    mortal.expire_and_rescue(1).await;
    let task = stage.scene.task_of(&run).await;
    assert_eq!(task.news[0].1["event"]["activity_done"]["seq"], 2);
    assert_eq!(mortal.try_settle(&second, done()).await, Verdict::LeaseLost);
    mortal.claim_nothing().await;
    assert_eq!(stage.ask(&["EXISTS", "jobs", "queue:pings", "queue:pings:running"]), "1");
}

#[tokio::test]
async fn a_task_that_another_program_deleted_is_made_anew_by_the_next_event() {
    let stage = Stage::new().await;
    let run = stage.scene.start_run(order()).await;
    stage.ask(&["DEL", "workflow:order"]);
    stage.scene.signal(&run, [1]).await;
    let task = stage.scene.task_of(&run).await;
    assert_eq!(task.last(), 2);
}

#[tokio::test]
async fn the_groups_of_queues_are_theirs_when_a_run_cancels_its_activity() {
    let queue = QueueName::new("activities").unwrap();
    let stage = Stage::with(|options| options.group(queue, "browser-workers")).await;
    let run = stage.scene.start_parked_run(|run| vec![activity(run, 1)]).await;
    let job = stage.scene.on_activities().claim_one().await;
    stage.scene.signal(&run, [1]).await;
    let task = stage.scene.task_of(&run).await;
    stage.scene.commit(&task, vec![Effect::CancelJob(run.part(1))], AfterCommit::Running).await;
    assert_eq!(stage.scene.on_activities().try_settle(&job, done()).await, Verdict::Accepted);
    stage.scene.task_of(&run).await;
}

#[tokio::test]
async fn a_damaged_run_disturbs_no_other() {
    let stage = Stage::new().await;
    for damage in [
        &["SET", "instances-bad", "no JSON"][..],
        &["SET", "instances-bad", "{}"],
        &["SET", "events-bad", "no stream"],
        &["XADD", "events-bad", "*", "data", "from elsewhere"],
    ] {
        stage.ask(&["FLUSHALL"]);
        let bad = stage.scene.start_run(order_of(RunId::new("bad").unwrap())).await;
        let task = stage.scene.task_of(&bad).await;
        let good = stage.scene.start_run(order()).await;
        let other = stage.scene.task_of(&good).await;
        stage.ask(damage);
        let answer = stage.store.deliver(&[signal(&bad, 1), signal(&good, 2)]).await;
        assert!(matches!(answer, Err(Error::Corrupt(_))), "{answer:?} after {damage:?}");
        let batch = [
            task.settlement(Vec::new(), AfterCommit::Running),
            other.settlement(Vec::new(), AfterCommit::Running),
        ];
        let verdicts = stage.store.settle(SettleParams::current(&batch)).await.unwrap();
        assert_eq!(verdicts, [Verdict::LeaseLost, Verdict::Accepted], "{damage:?}");
        assert_eq!(stage.scene.task_of(&good).await.signals(), [2]);
        stage.scene.no_task().await;
        let listed = stage.store.list_runs(Default::default()).await.unwrap();
        assert!(listed.items.len() <= 2);
    }
}

#[tokio::test]
async fn what_a_journal_does_not_take_changes_nothing_and_is_taken_when_it_does() {
    let stage = Stage::new().await;
    for (damage, repair) in [
        (&["RENAME", "events-bad", "aside"][..], &["RENAME", "aside", "events-bad"][..]),
        (&["XADD", "events-bad", "9-0", "data", "from elsewhere"], &[]),
    ] {
        stage.ask(&["FLUSHALL"]);
        let bad = stage.scene.start_run(order_of(RunId::new("bad").unwrap())).await;
        let task = stage.scene.task_of(&bad).await;
        stage.scene.commit(&task, vec![activity(&bad, 1)], AfterCommit::Running).await;
        let job = stage.scene.on_activities().claim_one().await;
        stage.scene.signal(&bad, [1]).await;
        let task = stage.scene.task_of(&bad).await;
        stage.ask(damage);
        if damage[0] == "RENAME" {
            stage.ask(&["SET", "events-bad", "no stream"]);
        }
        let before = stage.everything().await;
        let again =
            ContinueAsNew { first: order().journal[0].bytes.clone(), id_retention: DELIVERY_ID_RETENTION };
        for then in [AfterCommit::Running, AfterCommit::ContinueAsNew(again), completed("1")] {
            let timer = timer(7, stage.scene.after(Duration::from_secs(60)));
            let verdict = stage.scene.try_commit(&task, vec![activity(&bad, 2), timer], then).await;
            assert_eq!(verdict, Verdict::LeaseLost, "{damage:?}");
        }
        assert_eq!(stage.scene.on_activities().try_settle(&job, done()).await, Verdict::LeaseLost);
        let (id, change) = (bad.part(1), stage.scene.on_activities().settlement(&job, done()).change);
        let refused = stage.store.complete(CompleteParams { job: &id, change: &change }).await;
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
        assert_eq!(stage.everything().await, before, "{damage:?}");
        if !repair.is_empty() {
            stage.ask(repair);
            stage.scene.on_activities().settle(&job, done()).await;
            stage.scene.commit(&task, Vec::new(), AfterCommit::Running).await;
            assert_eq!(stage.scene.task_of(&bad).await.news[0].1["event"]["activity_done"]["seq"], 1);
        }
    }
}

#[tokio::test]
async fn an_entry_that_is_no_json_is_shown_as_it_is_and_its_task_is_an_envelope() {
    let stage = Stage::new().await;
    let run = stage.scene.start_parked_run(|_| Vec::new()).await;
    stage.ask(&["XADD", &format!("events-{run}"), "3-0", "data", "{torn", "kind", "message"]);
    let state = stage.ask(&["GET", &format!("instances-{run}")]).replace("\"length\":2", "\"length\":3");
    stage.ask(&["SET", &format!("instances-{run}"), &state]);
    stage.scene.signal(&run, [1]).await;
    let task = stage.scene.task_of(&run).await;
    assert_eq!((task.news.len(), task.news[0].1.is_null()), (2, true));
    let half = r#"{"signal":{"name":"n","payload":"\ud800"}}"#;
    let half = Delivery { entry: event(EntryKind::Message, half), ..signal(&run, 1) };
    assert_eq!(stage.scene.deliver(half.clone()).await, Delivered::Yes);
    stage.scene.commit(&task, Vec::new(), AfterCommit::Running).await;
    let envelope = stage.scene.claim_one().await.body.unwrap();
    assert!(String::from_utf8_lossy(envelope.bytes()).contains(r#""payload":"\ud800""#));
    let journal = stage
        .store
        .read_journal(ReadJournalParams { run: &run, from: 3, limit: 1, bytes: 1 << 20 })
        .await
        .unwrap();
    assert_eq!((journal[0].0, &journal[0].1.bytes[..]), (3, &b"{torn"[..]));
}

#[tokio::test]
async fn what_is_no_alarm_is_set_aside_and_the_others_fire() {
    let stage = Stage::new().await;
    stage.ask(&["ZADD", "timers", "1", "garbage", "1", "gone 1 t", "1", "bad 1 t", "1", "bad x ?"]);
    stage.ask(&["SET", "instances-bad", "no JSON"]);
    let due = stage.scene.after(Duration::from_millis(1));
    let run = stage.scene.start_parked_run(|_| vec![timer(1, due)]).await;
    let task = stage.scene.task_when_due().await;
    assert_eq!(task.run, run);
    assert_eq!(stage.ask(&["ZCARD", "timers"]), "0");
    assert_eq!(stage.ask(&["ZCARD", "damaged-timers"]), "3");
    let findings = stage.store.checkup().await.unwrap().findings;
    assert!(findings.iter().any(|finding| finding.subject == "timers"), "{findings:?}");
}

#[tokio::test]
async fn a_key_of_the_wrong_type_keeps_a_run_from_starting_and_nothing_is_half_done() {
    let stage = Stage::new().await;
    stage.ask(&["SET", "stream:activities", "what is this?"]);
    let new = order();
    let effects = vec![activity(&new.run, 1)];
    let refused = stage.store.start_run(&StartRunParams { effects, ..new }).await;
    assert!(matches!(refused, Err(Error::Unsuitable(_))), "{refused:?}");
    assert_eq!(stage.ask(&["DBSIZE"]), "1");
}

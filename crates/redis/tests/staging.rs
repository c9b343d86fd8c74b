//! Commits that are too much for one script: they stick in one step, whatever dies before, between and after.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

mod support;

use std::sync::Arc;

use support::mortal::Mortal;
use tidemill_core::JobId;
use tidemill_core::store::runs::{AfterCommit, Effect, EntryKind, StartRunParams};
use tidemill_core::store::{Jobs, SettleParams, Verdict};
use tidemill_core::workflow::{RunId, RunStatus};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{activity, completed, event, order, order_of, timer, until};
use tidemill_testkit::conformance::{LONG, QueueHarness};
use tidemill_testkit::servers::Redis;

/// Enough for several portions.
const MANY: u64 = 600;

/// How many of them are activities. A death is planned by packets, so what is staged at once must be a few of them.
const JOBS: u64 = 20;

async fn connect(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(RedisOptions::parse(url).unwrap()).await.unwrap())
}

fn scene(store: &Arc<RedisStore>) -> QueueHarness {
    QueueHarness::new(store.clone(), order().queue)
}

fn effects(scene: &QueueHarness, run: &RunId) -> Vec<Effect> {
    let due = scene.after(100 * LONG);
    (1..=MANY).map(|seq| if seq <= JOBS { activity(run, seq) } else { timer(seq, due) }).collect()
}

fn ask(redis: &Redis, command: &[&str]) -> String {
    redis.command(command).unwrap()
}

/// How many commands a script has sent at most since the last reset, by what MONITOR shows.
async fn largest_script(redis: &Redis, during: impl Future<Output = ()>) -> usize {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let mut monitor = tokio::net::TcpStream::connect(("127.0.0.1", redis.port())).await.unwrap();
    monitor.write_all(b"MONITOR\r\n").await.unwrap();
    let mut lines = BufReader::new(monitor).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "+OK");
    during.await;
    ask(redis, &["ECHO", "the end"]);
    let (mut largest, mut current) = (0, 0);
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("\"the end\"") {
            return largest.max(current);
        }
        current = if line.contains(" lua]") { current + 1 } else { 0 };
        largest = largest.max(current);
    }
    unreachable!("MONITOR has ended");
}

#[tokio::test]
async fn no_script_of_a_large_commit_does_all_of_it() {
    let redis = Redis::start().unwrap();
    let store = connect(&redis.url()).await;
    let scene = scene(&store);
    let run = scene.start_run(order()).await;
    let task = scene.task_of(&run).await;
    let due = scene.after(100 * LONG);
    let mut all: Vec<Effect> = (1..=5_000).map(|seq| activity(&run, seq)).collect();
    all.extend((5_001..=15_000).map(|seq| timer(seq, due)));
    let largest = largest_script(&redis, scene.commit(&task, all, AfterCommit::Running)).await;
    assert!(largest < 4_000, "one script sent {largest} commands for a commit");
    scene.on_activities().assert_counts([5_000, 0, 0, 0]).await;
    assert_eq!(ask(&redis, &["ZCARD", "tidemill:timers"]), "10000");
    // The end drops all alarms, and is as large.
    scene.signal(&run, [1]).await;
    let task = scene.task_of(&run).await;
    let cancel = |seq| Effect::CancelJob(JobId::new(&format!("{run}!{seq}")).unwrap());
    let cancels = (1..=5_000).map(cancel).collect();
    let largest = largest_script(&redis, scene.commit(&task, cancels, completed("1"))).await;
    assert!(largest < 4_000, "one script sent {largest} commands for an end");
    scene.on_activities().assert_counts([0, 0, 0, 0]).await;
    assert_eq!(ask(&redis, &["EXISTS", "tidemill:timers"]), "0");
    let left = ["EVAL", "return #redis.call('KEYS', '*effects*') + #redis.call('KEYS', '*staged*')", "0"];
    assert_eq!(ask(&redis, &left), "0");
}

#[tokio::test]
async fn a_large_commit_whose_worker_dies_sticks_whole_or_not_at_all() {
    let redis = Redis::start().unwrap();
    let store = connect(&redis.url()).await;
    let scene = scene(&store);
    // Loads the scripts, so that each request is a step.
    let warm = scene.start_parked_run(|run| effects(&scene, run)).await;
    assert_eq!(scene.terminate(&warm, &[]).await, Verdict::Accepted);
    ask(&redis, &["FLUSHDB"]);
    let (mut before, mut after) = (0, 0);
    for steps in 1.. {
        let mortal = Mortal::to(redis.port()).await;
        let dying = connect(&mortal.url()).await;
        let run = scene.start_run(order()).await;
        let task = scene.task_of(&run).await;
        mortal.dies_after(steps);
        let settled = dying
            .settle(SettleParams::current(&[task.settlement(effects(&scene, &run), AfterCommit::Running)]))
            .await;
        if !mortal.is_dead() {
            assert_eq!(settled.unwrap(), [Verdict::Accepted]);
            break;
        }
        if scene.run(&run).await.cursor == 0 {
            before += 1;
            scene.on_activities().assert_counts([0, 0, 0, 0]).await;
            assert_eq!(scene.try_commit(&task, Vec::new(), AfterCommit::Running).await, Verdict::Accepted);
        } else {
            after += 1;
            scene.signal(&run, [1]).await;
            until("others to carry out the commit", || async {
                scene.promote().await;
                (ask(&redis, &["ZCARD", "tidemill:errands"]) == "0").then_some(())
            })
            .await;
            scene.on_activities().assert_counts([JOBS, 0, 0, 0]).await;
            assert_eq!(ask(&redis, &["ZCARD", "tidemill:timers"]), (MANY - JOBS).to_string());
            assert_eq!(scene.task_of(&run).await.signals(), [1]);
        }
        ask(&redis, &["FLUSHDB"]);
    }
    assert!(before > 0 && after > 0, "{before} died before the commit, {after} after it");
}

/// A run whose commit is made, and none of whose effects is carried out: its worker has died.
async fn half_done(redis: &Redis, scene: &QueueHarness) -> RunId {
    for steps in 1.. {
        ask(redis, &["FLUSHDB"]);
        let mortal = Mortal::to(redis.port()).await;
        let dying = connect(&mortal.url()).await;
        let run = scene.start_run(order()).await;
        let task = scene.task_of(&run).await;
        mortal.dies_after(steps);
        let _ = dying
            .settle(SettleParams::current(&[task.settlement(effects(scene, &run), AfterCommit::Running)]))
            .await;
        if scene.run(&run).await.cursor > 0 {
            return run;
        }
    }
    unreachable!("some number of steps is enough");
}

#[tokio::test]
async fn nothing_overtakes_what_a_commit_has_left_to_be_done() {
    let redis = Redis::start().unwrap();
    let store = connect(&redis.url()).await;
    let scene = scene(&store);
    scene.start_parked_run(|run| effects(&scene, run)).await;
    // A signal makes no task before the commit is carried out.
    let run = half_done(&redis, &scene).await;
    scene.signal(&run, [7]).await;
    scene.no_task().await;
    assert_eq!(scene.task_when_due().await.signals(), [7]);
    scene.on_activities().assert_counts([JOBS, 0, 0, 0]).await;
    // An end from outside comes behind it.
    let run = half_done(&redis, &scene).await;
    let cancel = |seq| Effect::CancelJob(JobId::new(&format!("{run}!{seq}")).unwrap());
    let cancels: Vec<_> = (1..=JOBS).map(cancel).collect();
    assert_eq!(scene.terminate(&run, &cancels).await, Verdict::Accepted);
    assert_eq!(scene.run(&run).await.status, RunStatus::Terminated);
    scene.on_activities().assert_counts([0, 0, 0, 0]).await;
    assert_eq!(ask(&redis, &["EXISTS", "tidemill:timers"]), "0");
}

/// Deletes what is staged when a part of `all` is there, once: what a failover to a replica that lags behind does.
async fn lose_a_portion(url: String, all: u64) {
    let lose = "for _, key in ipairs(redis.call('KEYS', '*staged*')) do
        local there = redis.call('LLEN', key)
        if there > 0 and there < tonumber(ARGV[1]) then return redis.call('DEL', key) end
    end
    return 0";
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut call = redis::cmd("EVAL");
    call.arg(lose).arg(0).arg(all);
    while call.query_async::<u64>(&mut connection).await.unwrap() == 0 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_effects_were_lost_in_part_does_not_count() {
    let redis = Redis::start().unwrap();
    let store = connect(&redis.url()).await;
    let scene = scene(&store);
    let run = scene.start_run(order()).await;
    let task = scene.task_of(&run).await;
    let effects: Vec<Effect> = (1..=5_000).map(|seq| activity(&run, seq)).collect();
    let losing = tokio::spawn(lose_a_portion(redis.url(), 5_000));
    let verdict = scene.try_commit(&task, effects.clone(), AfterCommit::Running).await;
    tokio::time::timeout(LONG, losing).await.expect("a portion was there to be lost").unwrap();
    let there = scene.on_activities().counts().await.ready;
    assert_eq!(verdict, Verdict::LeaseLost, "{there} of 5000 activities were made by a commit that counts");
    scene.on_activities().assert_counts([0, 0, 0, 0]).await;
    // The claim is still held, and what it did can be done again.
    assert_eq!(scene.try_commit(&task, effects, AfterCommit::Running).await, Verdict::Accepted);
    scene.on_activities().assert_counts([5_000, 0, 0, 0]).await;
}

#[tokio::test]
async fn a_run_begins_with_a_large_journal_and_much_to_do() {
    let redis = Redis::start().unwrap();
    let store = connect(&redis.url()).await;
    let scene = scene(&store);
    let entry = event(EntryKind::Message, r#"{"signal":{"name":"n","payload":1}}"#);
    let mut run: StartRunParams = order_of(RunId::new("again").unwrap());
    run.journal.extend(std::iter::repeat_n(entry, 2_000));
    run.effects = effects(&scene, &run.run);
    let started = largest_script(&redis, async {
        scene.start_run(run.clone()).await;
    });
    let largest = started.await;
    assert!(largest < 2_000, "one script sent {largest} commands for a start");
    assert_eq!(scene.run(&run.run).await.length, 2_001);
    scene.on_activities().assert_counts([JOBS, 0, 0, 0]).await;
    assert_eq!(scene.journal(&run.run).await.len(), 2_001);
    let task = scene.task_of(&run.run).await;
    assert_eq!(task.news.len(), 256);
}

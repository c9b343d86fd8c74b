//! What one script does is bounded, in jobs and in bytes: a script keeps the server from everything else.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::mortal::Mortal;
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, redrive};
use tidemill_core::settle::Settlement;
use tidemill_core::store::{Cancelled, Due, Jobs, PromoteParams, Queues, SettleParams, Verdict};
use tidemill_core::{Client, Guarantee, Queue, QueueName, Store, job::JobState};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{JobSpec, dead, done, job, retry, until};
use tidemill_testkit::conformance::{LONG, QueueHarness, SHORT};
use tidemill_testkit::servers::Redis;

/// The size of a large job.
const LARGE: usize = 100 << 10;

/// What one script may move, in large jobs: more than it does, less than would hold up a server.
const FEW: u64 = 8;

struct Stage {
    redis: Redis,
    store: Arc<RedisStore>,
}

impl Stage {
    async fn new() -> Self {
        let redis = Redis::start().unwrap();
        Self { store: connect(&redis.url()).await, redis }
    }

    fn scenes(&self) -> [QueueHarness; 2] {
        scenes(&self.store)
    }

    /// How many scripts were called meanwhile.
    async fn scripts<T>(&self, of: impl Future<Output = T>) -> (u64, T) {
        let before = self.store.commands();
        let answer = of.await;
        (self.store.commands() - before, answer)
    }
}

async fn connect(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(RedisOptions::parse(url).unwrap()).await.unwrap())
}

/// A stream and a list.
fn scenes(store: &Arc<RedisStore>) -> [QueueHarness; 2] {
    [Guarantee::AtLeastOnce, Guarantee::AtMostOnce].map(|delivery| {
        QueueHarness::new(store.clone(), Queue { name: QueueName::new("q").unwrap(), guarantee: delivery })
    })
}

fn large(due: Due) -> JobSpec {
    JobSpec { payload: format!("\"{}\"", "x".repeat(LARGE)), due, ..JobSpec::default() }
}

async fn enqueue_large(scene: &QueueHarness, count: usize, due: Due) {
    for _ in 0..count {
        scene.enqueue(large(due).job()).await;
    }
}

#[tokio::test]
async fn promoting_large_jobs_moves_a_few_at_a_time_and_all_in_the_end() {
    let stage = Stage::new().await;
    for scene in stage.scenes() {
        enqueue_large(&scene, 40, Due::In(Duration::from_millis(1))).await;
        let mut moved = 0;
        while moved < 40 {
            let promoted = scene.promote().await;
            assert!(promoted.moved <= FEW, "one script moved {} large jobs", promoted.moved);
            assert!(moved + promoted.moved == 40 || promoted.next == Some(Duration::ZERO), "{promoted:?}");
            moved += promoted.moved;
        }
        scene.assert_counts([40, 0, 0, 0]).await;
    }
}

#[tokio::test]
async fn promoting_reaches_a_queue_beside_one_with_large_jobs() {
    let stage = Stage::new().await;
    let [heavy, light] = stage.scenes();
    enqueue_large(&heavy, 200, Due::In(Duration::from_millis(1))).await;
    let soon = JobSpec { due: Due::In(Duration::from_millis(1)), ..JobSpec::default() };
    light.enqueue(soon.job()).await;
    let queues = [heavy.queue.clone(), light.queue.clone()];
    until("the light job to be ready", || async {
        stage.store.promote(PromoteParams { queues: &queues, limit: 512 }).await.unwrap();
        (light.counts().await.ready == 1).then_some(())
    })
    .await;
    assert!(heavy.counts().await.scheduled > 0, "the light job came last");
}

#[tokio::test]
async fn purging_large_jobs_deletes_a_few_at_a_time() {
    let stage = Stage::new().await;
    for scene in stage.scenes() {
        // The second time the server knows all scripts.
        let mut light = 0;
        for _ in 0..2 {
            scene.enqueue_many(40).await;
            light = stage.scripts(stage.store.purge(&scene.queue)).await.0;
        }
        enqueue_large(&scene, 20, Due::Now).await;
        enqueue_large(&scene, 20, Due::In(LONG)).await;
        let (scripts, purged) = stage.scripts(stage.store.purge(&scene.queue)).await;
        assert_eq!(purged.unwrap(), 40);
        let more = scripts.saturating_sub(light);
        assert!(
            more >= 40 / FEW - 1,
            "{scripts} calls deleted 40 large jobs, and {light} as many light ones"
        );
        scene.assert_counts([0, 0, 0, 0]).await;
    }
}

#[tokio::test]
async fn settling_and_redriving_large_jobs_moves_a_few_at_a_time() {
    let stage = Stage::new().await;
    for scene in stage.scenes() {
        enqueue_large(&scene, 20, Due::Now).await;
        for outcome in [retry(Duration::ZERO), dead("bad")] {
            let claimed = scene.claim(20).await;
            let settlements: Vec<Settlement> =
                claimed.iter().map(|job| scene.settlement(job, outcome.clone())).collect();
            let (scripts, verdicts) =
                stage.scripts(stage.store.settle(SettleParams::current(&settlements))).await;
            assert_eq!(verdicts.unwrap(), vec![Verdict::Accepted; 20]);
            assert!(scripts >= 20 / FEW, "{scripts} calls settled 20 large jobs");
        }
        let (scripts, moved) =
            stage.scripts(redrive(&*stage.store, &scene.queue, &DeadLetterFilter::default())).await;
        assert_eq!(moved.unwrap(), 20);
        assert!(scripts >= 20 / FEW, "{scripts} calls redrove 20 large jobs");
        scene.assert_counts([20, 0, 0, 0]).await;
        stage.store.purge(&scene.queue).await.unwrap();
    }
}

#[tokio::test]
async fn a_purge_whose_caller_dies_is_completed_by_others() {
    let redis = Redis::start().unwrap();
    let store = connect(&redis.url()).await;
    for (after, which) in (1..6).flat_map(|after| [(after, 0), (after, 1)]) {
        let mortal = Mortal::to(redis.port()).await;
        let dying = connect(&mortal.url()).await;
        let scene = &scenes(&store)[which];
        // Scripts are loaded, so that each request is a step.
        store.purge(&scene.queue).await.unwrap();
        enqueue_large(scene, 6, Due::Now).await;
        enqueue_large(scene, 6, Due::In(LONG)).await;
        mortal.dies_after(after);
        dying.purge(&scene.queue).await.unwrap_err();
        assert!(mortal.is_dead());
        let ready = scene.enqueue(job()).await;
        let scheduled = scene.enqueue(large(Due::In(LONG)).job()).await;
        until("the purge to be complete", || async {
            scene.promote().await;
            (redis.command(&["ZCARD", "tidemill:errands"]).unwrap() == "0").then_some(())
        })
        .await;
        scene.assert_counts([1, 1, 0, 0]).await;
        assert_eq!(scene.state(&ready).await, Some(JobState::Ready));
        assert_eq!(scene.state(&scheduled).await, Some(JobState::Scheduled));
        assert_eq!(store.purge(&scene.queue).await.unwrap(), 2);
    }
}

#[tokio::test]
async fn jobs_that_a_purge_has_set_apart_can_be_cancelled() {
    let stage = Stage::new().await;
    let [scene, _] = stage.scenes();
    let id = scene.enqueue(JobSpec { due: Due::In(LONG), ..JobSpec::default() }.job()).await;
    stage.redis.command(&["RENAME", "tidemill:stream:q:scheduled", "tidemill:stream:q:purged"]).unwrap();
    assert_eq!(stage.store.cancel(&id).await.unwrap(), Cancelled::Removed);
}

#[tokio::test]
async fn a_bulk_is_added_a_few_large_jobs_at_a_time() {
    let stage = Stage::new().await;
    let client = Client::new(stage.store.clone());
    // The server is to know the script before it is counted.
    let small = serde_json::value::to_raw_value("x").unwrap();
    client.untyped_jobs("small", vec![small; 2]).queue("q").enqueue().await.unwrap();
    let payload = serde_json::value::to_raw_value(&"x".repeat(LARGE)).unwrap();
    let payloads = vec![payload; 20];
    let (scripts, ids) = stage.scripts(client.untyped_jobs("large", payloads).queue("q").enqueue()).await;
    assert_eq!(ids.unwrap().len(), 20);
    assert!(scripts >= 20 / FEW, "20 jobs of {LARGE} bytes were added by {scripts} scripts");
    let most_in_one = 20_u64.div_ceil(scripts);
    assert!(most_in_one <= FEW, "a script added {most_in_one} jobs of {LARGE} bytes");
}

/// How often the server has executed a command.
fn calls(redis: &Redis, command: &str) -> u64 {
    let stats = redis.command(&["INFO", "commandstats"]).unwrap();
    let start = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&start));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_look_for_expired_leases_asks_about_some_of_many_queues() {
    let stage = Stage::new().await;
    let [served, _] = stage.scenes();
    let other = QueueName::new("other-1234").unwrap();
    let other = QueueHarness::new(stage.store.clone(), Queue::at_least_once(other)).with_lease(SHORT);
    let served = served.with_lease(SHORT);
    let many = "for i = 1, 3000 do redis.call('SADD', 'tidemill:queues', 's other-' .. i) end return 1";
    stage.redis.command(&["EVAL", many, "0"]).unwrap();
    for scene in [&served, &other] {
        scene.enqueue_many(1).await;
        scene.claim(1).await;
    }
    for wanted in [&served.queue, &other.queue] {
        until("the lease to be found", || async {
            let before = calls(&stage.redis, "xpending");
            let mut page = served.expired(None, 10).await;
            let asked = calls(&stage.redis, "xpending") - before;
            assert!(asked < 1_000, "one look asked {asked} times about 3000 queues");
            let mut found = page.leases;
            while page.next.is_some() {
                page = served.expired(page.next, 10).await;
                found.append(&mut page.leases);
            }
            found.iter().any(|hold| hold.claimed.lease.queue == *wanted).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn of_large_jobs_in_a_list_a_few_are_taken_at_a_time() {
    let stage = Stage::new().await;
    let [_, scene] = stage.scenes();
    // Many at once, and as few as a script moves one by one.
    for at_once in [24, 8] {
        for _ in 0..24 {
            let payload = format!("\"{}\"", "x".repeat(1_000_000));
            scene.enqueue(JobSpec { payload, ..JobSpec::default() }.job()).await;
        }
        let mut taken = 0;
        while taken < 24 {
            let claimed = scene.claim_with(at_once, at_once, LONG).await;
            assert!(claimed.len() < 8, "one script took {} jobs of 1 MB", claimed.len());
            taken += claimed.len();
            for job in &claimed {
                scene.settle(job, done()).await;
            }
        }
        scene.assert_counts([0, 0, 0, 0]).await;
    }
}

#[tokio::test]
async fn what_dead_workers_have_taken_from_a_list_is_ended_a_few_large_jobs_at_a_time() {
    let stage = Stage::new().await;
    let [_, scene] = stage.scenes();
    scene.enqueue_many(1).await;
    // The first look loads the scripts.
    assert!(scene.all_expired(100).await.is_empty());
    for _ in 0..40 {
        let envelope = large(Due::Now).job().envelope;
        let envelope = std::str::from_utf8(&envelope).unwrap();
        stage.redis.command(&["LPUSH", "tidemill:queue:q:taken:dead:1", envelope]).unwrap();
    }
    stage.redis.command(&["ZADD", "tidemill:queue:q:takers", "1", "dead:1"]).unwrap();
    let before = calls(&stage.redis, "evalsha");
    assert_eq!(scene.all_expired(100).await.len(), 40);
    let scripts = calls(&stage.redis, "evalsha") - before;
    assert!(scripts >= 40 / FEW, "{scripts} scripts ended 40 large jobs");
    assert_eq!(stage.redis.command(&["EXISTS", "tidemill:queue:q:takers"]).unwrap(), "0");
}

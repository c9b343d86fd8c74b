//! How long the longest scripts keep the server busy, by its own SLOWLOG. Measured by hand:
//! `cargo test --workspace --all-features --test slow -- --ignored --nocapture --test-threads 1`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test's name is its documentation; it fails by panicking; a measurement is printed"
)]

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tidemill_core::store::runs::{AfterCommit, Effect};
use tidemill_core::store::{Due, Jobs, PromoteParams, Queues};
use tidemill_core::{Guarantee, JobId, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{JobSpec, activity, completed, order, timer};
use tidemill_testkit::conformance::{LONG, QueueHarness};
use tidemill_testkit::servers::Redis;

/// What is slower than this is looked at, in microseconds.
const LOGGED_US: u32 = 500;

struct Stage {
    redis: Redis,
    store: Arc<RedisStore>,
}

impl Stage {
    async fn new() -> Self {
        let redis = Redis::start().unwrap();
        let store = Arc::new(RedisStore::connect(RedisOptions::parse(&redis.url()).unwrap()).await.unwrap());
        redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", &LOGGED_US.to_string()]).unwrap();
        redis.command(&["CONFIG", "SET", "slowlog-max-len", "100000"]).unwrap();
        Self { redis, store }
    }

    /// Prints how long the slowest of the scripts took that are called meanwhile.
    async fn measure(&self, what: &str, during: impl Future<Output = ()>) {
        self.redis.command(&["SLOWLOG", "RESET"]).unwrap();
        during.await;
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let log: Vec<Vec<Value>> =
            redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(&mut connection).await.unwrap();
        let took = |entry: &Vec<Value>| match entry[2] {
            Value::Int(micros) => micros,
            _ => unreachable!("SLOWLOG says how long it took"),
        };
        let mut times: Vec<i64> = log.iter().map(took).collect();
        times.sort_unstable();
        let worst: Vec<String> =
            times.iter().rev().take(3).map(|us| format!("{:.1}", *us as f64 / 1e3)).collect();
        println!("{what}: slowest {} ms; {} calls over {LOGGED_US} us", worst.join(", "), times.len());
    }

    fn scene(&self, delivery: Guarantee) -> QueueHarness {
        QueueHarness::new(
            self.store.clone(),
            Queue { name: QueueName::new("q").unwrap(), guarantee: delivery },
        )
    }
}

fn job_of(bytes: usize, due: Due) -> JobSpec {
    JobSpec { payload: format!("\"{}\"", "x".repeat(bytes)), due, ..JobSpec::default() }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn large_commits() {
    let stage = Stage::new().await;
    let scene = QueueHarness::new(stage.store.clone(), order().queue);
    let run = scene.start_run(order()).await;
    let task = scene.task_of(&run).await;
    let activities = (1..=5_000).map(|seq| activity(&run, seq)).collect();
    stage.measure("commit of 5,000 activities", scene.commit(&task, activities, AfterCommit::Running)).await;
    scene.signal(&run, [1]).await;
    let (task, due) = (scene.task_of(&run).await, scene.after(100 * LONG));
    let timers = (5_001..=25_000).map(|seq| timer(seq, due)).collect();
    stage.measure("commit of 20,000 timers", scene.commit(&task, timers, AfterCommit::Running)).await;
    scene.signal(&run, [2]).await;
    let task = scene.task_of(&run).await;
    let cancel = |seq| Effect::CancelJob(JobId::new(&format!("{run}!{seq}")).unwrap());
    let cancels = (1..=5_000).map(cancel).collect();
    stage
        .measure("end of the run, with all that it waits for", scene.commit(&task, cancels, completed("1")))
        .await;
}

#[tokio::test]
#[ignore = "a measurement"]
async fn large_jobs() {
    let stage = Stage::new().await;
    for (bytes, count) in [(100 << 10, 512), (1_000 << 10, 16), (300, 2_000)] {
        for delivery in [Guarantee::AtLeastOnce, Guarantee::AtMostOnce] {
            let (scene, soon) = (stage.scene(delivery), Due::In(Duration::from_millis(1)));
            let what = format!("{count} jobs of {bytes} bytes, {delivery:?}");
            let enqueue = async {
                for _ in 0..count {
                    scene.enqueue(job_of(bytes, soon).job()).await;
                }
            };
            stage.measure(&format!("{what}: enqueue"), enqueue).await;
            let promote = async {
                let queues = [scene.queue.clone()];
                let mut moved = 0;
                while moved < count {
                    moved += stage
                        .store
                        .promote(PromoteParams { queues: &queues, limit: 512 })
                        .await
                        .unwrap()
                        .moved;
                }
            };
            stage.measure(&format!("{what}: promote"), promote).await;
            let purge = async { assert_eq!(stage.store.purge(&scene.queue).await.unwrap(), count) };
            stage.measure(&format!("{what}: purge"), purge).await;
        }
    }
}

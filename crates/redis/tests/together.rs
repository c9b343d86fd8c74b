//! Jobs that are written together: single starts in one script, and ends that leave a record.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{ClaimParams, Claimed, Inspect, JobRecord, Jobs, SettleParams, Verdict};
use tidemill_core::wake::Wake;
use tidemill_core::{
    Client, Error, HolderId, Job, Namespace, Queue, QueueName, Store, Timestamp, job::JobState,
};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::servers::Redis;

#[derive(Serialize, Deserialize)]
struct Kept;

impl Job for Kept {
    const KIND: &'static str = "kept";
    const QUEUE: &'static str = "q";
    type Output = ();
    const KEEP_RESULT: Option<Duration> = Some(Duration::from_secs(60));
}

struct Stage {
    redis: Redis,
    store: Arc<RedisStore>,
    client: Client,
    worker: HolderId,
}

impl Stage {
    async fn new() -> Self {
        let redis = Redis::start().unwrap();
        let options = RedisOptions::parse(&redis.url()).unwrap().namespace(Namespace::new("t:").unwrap());
        let store = Arc::new(RedisStore::connect(options).await.unwrap());
        let client = Client::new(store.clone());
        Self { redis, store, client, worker: HolderId::new("host:1:0:boot").unwrap() }
    }

    fn ask(&self, command: &[&str]) -> String {
        self.redis.command(command).unwrap()
    }

    async fn claim(&self, max: usize) -> Vec<Claimed> {
        let claim = ClaimParams::now(queue(), &self.worker, Duration::from_secs(30), max);
        self.store.claim(claim).await.unwrap()
    }
}

fn queue() -> &'static Queue {
    static QUEUE: std::sync::LazyLock<Queue> =
        std::sync::LazyLock::new(|| Queue::at_least_once(QueueName::new("q").unwrap()));
    &QUEUE
}

fn finish(claimed: &Claimed) -> Settlement {
    let record = JobRecord {
        job: claimed.lease.job.chain(),
        state: JobState::Done,
        output: "7".into(),
        error: None,
        finished_at: Timestamp(1),
        keep: Duration::from_secs(60),
    };
    Settlement { lease: claimed.lease.clone(), change: Change::Finish(Some(record)) }
}

#[tokio::test]
async fn single_starts_at_once_share_scripts_and_each_is_found_by_its_id() {
    let stage = Stage::new().await;
    stage.client.job(Kept).enqueue().await.unwrap();
    let before = stage.store.commands();
    let handles = join_all((0..200).map(|_| stage.client.job(Kept).enqueue())).await;
    let commands = stage.store.commands() - before;
    assert!(commands < 100, "{commands} commands for 200 starts");
    for handle in handles {
        let info = stage.store.get_job(handle.unwrap().id()).await.unwrap().unwrap();
        assert_eq!(info.state, JobState::Ready);
    }
    assert_eq!(stage.claim(300).await.len(), 201);
}

#[tokio::test]
async fn a_start_whose_caller_has_left_takes_nobody_with_it() {
    let stage = Stage::new().await;
    let starts = (0..50).map(|_| tokio::spawn(stage.client.job(Kept).enqueue()));
    let starts: Vec<_> = starts.collect();
    starts.iter().step_by(2).for_each(tokio::task::JoinHandle::abort);
    let made = join_all(starts).await.into_iter().filter_map(Result::ok).map(Result::unwrap).count();
    assert!(made >= 25);
    assert!(stage.claim(100).await.len() >= made);
}

#[tokio::test]
async fn a_full_server_refuses_every_one_of_them_and_has_nothing_of_any() {
    let stage = Stage::new().await;
    stage.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    for refused in join_all((0..20).map(|_| stage.client.job(Kept).enqueue())).await {
        assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    }
    let batch = stage.client.jobs([Kept, Kept]).enqueue().await.map_err(Error::from);
    assert!(matches!(batch, Err(Error::Full(_))), "{batch:?}");
    assert_eq!(stage.ask(&["DBSIZE"]), "0");
}

#[tokio::test]
async fn an_index_that_is_none_leaves_no_entry_without_one() {
    let stage = Stage::new().await;
    for key in ["t:jobs", "t:queues"] {
        stage.ask(&["SET", key, "what is this?"]);
        let refused = stage.client.job(Kept).enqueue().await;
        assert!(matches!(refused, Err(Error::Unsuitable(_))), "{refused:?}");
        assert_eq!(stage.ask(&["DBSIZE"]), "1");
        stage.ask(&["DEL", key]);
    }
}

#[tokio::test]
async fn of_ends_in_one_batch_only_those_that_are_held_leave_a_record() {
    let stage = Stage::new().await;
    stage.client.jobs([Kept, Kept, Kept]).enqueue().await.unwrap();
    let claimed = stage.claim(3).await;
    let mut settlements: Vec<_> = claimed.iter().map(finish).collect();
    settlements[2].change = Change::Finish(None);
    let first = stage.store.settle(SettleParams::current(&settlements[..1])).await.unwrap();
    assert_eq!(first, [Verdict::Accepted]);
    settlements[0].change = Change::Finish(None);
    let verdicts = stage.store.settle(SettleParams::current(&settlements)).await.unwrap();
    assert_eq!(verdicts, [Verdict::LeaseLost, Verdict::Accepted, Verdict::Accepted]);
    for (claimed, kept) in claimed.iter().zip([true, true, false]) {
        let found = stage.store.get_job(&claimed.lease.job).await.unwrap();
        assert_eq!(found.is_some(), kept);
    }
    assert_eq!(stage.ask(&["XLEN", "t:stream:q"]), "0");
    assert_eq!(stage.ask(&["EXISTS", "t:jobs"]), "0");
}

#[tokio::test]
async fn whoever_listens_hears_of_every_end_of_a_batch() {
    use futures_util::StreamExt;
    let stage = Stage::new().await;
    let mut wakes = stage.store.subscribe();
    // The first thing it hears is that it hears.
    assert_eq!(wakes.next().await, Some(Wake::Everything));
    stage.client.jobs((0..20).map(|_| Kept)).enqueue().await.unwrap();
    let claimed = stage.claim(20).await;
    let settlements: Vec<_> = claimed.iter().map(finish).collect();
    stage.store.settle(SettleParams::current(&settlements)).await.unwrap();
    for claimed in claimed {
        assert_eq!(wakes.next().await, Some(Wake::Finished(claimed.lease.job)));
    }
}

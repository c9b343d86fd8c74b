//! Jobs taken from lists: cancelled ones in great number, locks that have run out, pops of workers that have died.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidemill_core::job::State;
use tidemill_core::store::{Held, Wake};
use tidemill_core::{Delivery, Queue, QueueName};
use tidemill_redis::{Options, RedisStore};
use tidemill_testkit::conformance::scene::{done, job, until};
use tidemill_testkit::conformance::{LONG, SHORT, Scene};
use tidemill_testkit::servers::Redis;

struct Stage {
    redis: Redis,
    scene: Scene,
}

impl Stage {
    async fn new(delivery: Delivery) -> Self {
        let redis = Redis::start().unwrap();
        let store = Arc::new(RedisStore::connect(Options::parse(&redis.url()).unwrap()).await.unwrap());
        let scene = Scene::new(store, Queue { name: QueueName::new("q").unwrap(), delivery });
        Self { redis, scene }
    }

    fn ask(&self, command: &[&str]) -> String {
        self.redis.command(command).unwrap()
    }
}

#[tokio::test]
async fn a_claim_passes_over_thousands_of_cancelled_jobs() {
    let Stage { scene, .. } = &Stage::new(Delivery::AtMostOnce).await;
    let ids = scene.enqueue_many(4_000).await;
    for part in ids.chunks(200) {
        join_all(part.iter().map(|id| scene.store.cancel(id))).await.into_iter().for_each(|answer| {
            answer.unwrap();
        });
    }
    let last = scene.enqueue(job()).await;
    // A claim of one job pops as often as there are cancelled ones before it.
    assert_eq!(scene.claim_one().await.lease.job, last);
    scene.claim_nothing().await;
}

#[tokio::test]
async fn a_lock_that_has_run_out_is_held_until_it_is_rescued() {
    let stage = Stage::new(Delivery::AtMostOnce).await;
    let scene = stage.scene.clone().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    let lock = format!("tidemill:queue:q:lock:{id}");
    let is_gone = || async { (stage.ask(&["EXISTS", &lock]) == "0").then_some(()) };
    until("the lock to run out", is_gone).await;
    let leases = [claimed.lease.clone()];
    assert_eq!(stage.scene.extend(&leases).await, [Held::Yes]);
    assert_eq!(stage.ask(&["EXISTS", &lock]), "1");
    assert!(scene.all_expired(10).await.is_empty());
    scene.settle(&claimed, done()).await;

    scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    assert_eq!(stage.scene.extend(&[claimed.lease]).await, [Held::Lost]);
}

#[tokio::test]
async fn a_job_that_a_dead_worker_has_popped_is_shown_as_running() {
    let stage = Stage::new(Delivery::AtMostOnce).await;
    let id = stage.scene.enqueue(job()).await;
    // What a worker leaves that dies behind its pop.
    let till = i64::try_from(LONG.as_millis()).unwrap() + stage.scene.store.clock().now().0;
    stage.ask(&["ZADD", "tidemill:queue:q:takers", &till.to_string(), "host:7:1"]);
    stage.ask(&["LMOVE", "tidemill:queue:q", "tidemill:queue:q:taken:host:7:1", "RIGHT", "RIGHT"]);
    let info = stage.scene.get(&id).await.unwrap();
    assert_eq!((info.state, info.held_by.as_deref()), (State::Running, Some("host:7")));
    assert_eq!(info.job, id);
}

#[tokio::test]
async fn the_end_of_a_job_that_another_program_took_away_is_announced() {
    let stage = Stage::new(Delivery::AtLeastOnce).await;
    let scene = &stage.scene;
    let id = scene.enqueue(job()).await;
    let mut wakes = scene.store.listen();
    while wakes.next().await.unwrap() != Wake::Everything {}
    let claimed = scene.claim_one().await;
    let entry = format!("{}-{}", claimed.lease.token.0 >> 64, claimed.lease.token.0 & u128::from(u64::MAX));
    stage.ask(&["XACK", "tidemill:stream:q", "tidemill", &entry]);
    assert_eq!(stage.ask(&["XDEL", "tidemill:stream:q", &entry]), "1");
    scene.store.prune(std::slice::from_ref(&scene.queue)).await.unwrap();
    let heard = async { while wakes.next().await.unwrap() != Wake::Finished(id.clone()) {} };
    tokio::time::timeout(LONG, heard).await.unwrap();
    assert!(scene.get(&id).await.is_none());
}

//! Jobs taken from lists: cancelled ones in great number, locks that have run out, pops of workers that have died.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidemill_core::job::JobState;
use tidemill_core::store::{Cancelled, Extended, SettleParams, Verdict};
use tidemill_core::wake::Wake;
use tidemill_core::{Guarantee, JobId, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{JobSpec, dead, done, envelope, job, until};
use tidemill_testkit::conformance::{LONG, QueueHarness, SHORT};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::servers::Redis;

struct Stage {
    redis: Redis,
    scene: QueueHarness,
}

impl Stage {
    async fn new(delivery: Guarantee) -> Self {
        let redis = Redis::start().unwrap();
        let store = Arc::new(RedisStore::connect(RedisOptions::parse(&redis.url()).unwrap()).await.unwrap());
        let scene =
            QueueHarness::new(store, Queue { name: QueueName::new("q").unwrap(), guarantee: delivery });
        Self { redis, scene }
    }

    fn ask(&self, command: &[&str]) -> String {
        self.redis.command(command).unwrap()
    }
}

#[tokio::test]
async fn a_claim_passes_over_thousands_of_cancelled_jobs() {
    let Stage { scene, .. } = &Stage::new(Guarantee::AtMostOnce).await;
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
    let stage = Stage::new(Guarantee::AtMostOnce).await;
    let scene = stage.scene.clone().with_lease(SHORT);
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    let lock = format!("tidemill:queue:q:lock:{id}");
    let is_gone = || async { (stage.ask(&["EXISTS", &lock]) == "0").then_some(()) };
    until("the lock to run out", is_gone).await;
    let leases = [claimed.lease.clone()];
    assert_eq!(stage.scene.extend(&leases).await, [Extended::Yes]);
    assert_eq!(stage.ask(&["EXISTS", &lock]), "1");
    assert!(scene.all_expired(10).await.is_empty());
    scene.settle(&claimed, done()).await;

    scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    assert_eq!(stage.scene.extend(&[claimed.lease]).await, [Extended::Lost]);
}

#[tokio::test]
async fn a_job_that_a_dead_worker_has_popped_is_shown_as_running() {
    let stage = Stage::new(Guarantee::AtMostOnce).await;
    let id = stage.scene.enqueue(job()).await;
    // What a worker leaves that dies behind its pop.
    let till = i64::try_from(LONG.as_millis()).unwrap() + stage.scene.store.clock().now().0;
    stage.ask(&["ZADD", "tidemill:queue:q:takers", &till.to_string(), "host:7:1"]);
    stage.ask(&["LMOVE", "tidemill:queue:q", "tidemill:queue:q:taken:host:7:1", "RIGHT", "RIGHT"]);
    let info = stage.scene.get(&id).await.unwrap();
    assert_eq!((info.state, info.held_by.as_deref()), (JobState::Running, Some("host:7")));
    assert_eq!(info.job, id);
}

#[tokio::test]
async fn the_end_of_a_job_that_another_program_took_away_is_announced() {
    let stage = Stage::new(Guarantee::AtLeastOnce).await;
    let scene = &stage.scene;
    let id = scene.enqueue(job()).await;
    let mut wakes = scene.store.subscribe();
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

/// Two jobs that a dead worker has popped and not locked, one of them with a payload that talks like an envelope.
#[tokio::test]
async fn jobs_that_a_dead_worker_has_popped_are_ended_with_the_true_reason() {
    let stage = Stage::new(Guarantee::AtMostOnce).await;
    let scene = &stage.scene;
    let mut ids = Vec::new();
    for payload in [r#"{"a":1}"#, r#"{"tracked":false}"#, r#"{"tracked":false,"half":"\ud800"}"#] {
        let traits = JobSpec { payload: payload.to_owned(), keep: Some(LONG), ..JobSpec::default() };
        ids.push(scene.enqueue(traits.job()).await);
    }
    let nameless = JobSpec { payload: r#"{"half":"\ud800"}"#.to_owned(), ..JobSpec::default() };
    scene.enqueue_batch(vec![nameless.untracked()]).await.unwrap();
    stage.ask(&["ZADD", "tidemill:queue:q:takers", "1", "host:7:1"]);
    for _ in 0..4 {
        stage.ask(&["LMOVE", "tidemill:queue:q", "tidemill:queue:q:taken:host:7:1", "RIGHT", "RIGHT"]);
    }
    assert_eq!(scene.rescue().await, 3);
    for id in &ids {
        let info = scene.get(id).await.unwrap();
        let reason = info.record.and_then(|record| record.error).unwrap_or_default();
        assert_eq!(info.state, JobState::Cancelled);
        assert_eq!(reason, "the job was taken, and its worker did not come back");
    }
}

/// Another program takes a job off the list, and the job is cancelled: no later job of its id pays for it.
#[tokio::test]
async fn a_job_is_not_dropped_for_an_older_one_of_its_id_that_is_gone() {
    let stage = Stage::new(Guarantee::AtMostOnce).await;
    let scene = &stage.scene;
    let id = JobId::new("f1").unwrap();
    let of =
        |payload: &str| JobSpec { payload: payload.to_owned(), ..JobSpec::default() }.job_with_id(id.clone());
    scene.enqueue(of("1")).await;
    stage.ask(&["RPOP", "tidemill:queue:q"]);
    let other = scene.enqueue(job()).await;
    assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Removed);
    // The copy that is to be dropped is gone, and this one is not it.
    scene.enqueue(of("2")).await;
    let claimed = scene.claim(2).await;
    let ids: Vec<&JobId> = claimed.iter().map(|claimed| &claimed.lease.job).collect();
    assert_eq!(ids, [&other, &id]);
    for claimed in &claimed {
        scene.settle(claimed, done()).await;
    }
    assert_eq!(stage.ask(&["EXISTS", "tidemill:queue:q:dropped"]), "0");
}

/// Cancelled copies that are still in the list are dropped, and those that replace them are not, whatever they look like.
#[tokio::test]
async fn a_job_that_replaces_cancelled_ones_runs_once() {
    let stage = Stage::new(Guarantee::AtMostOnce).await;
    let scene = &stage.scene;
    let id = JobId::new("f1").unwrap();
    let of =
        |payload: &str| JobSpec { payload: payload.to_owned(), ..JobSpec::default() }.job_with_id(id.clone());
    for payloads in [["1", "2", "3"], ["1", "1", "1"], ["1", "2", "1"], ["1", "1", "2"]] {
        for payload in &payloads[..2] {
            scene.enqueue(of(payload)).await;
            assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Removed);
        }
        scene.enqueue(of(payloads[2])).await;
        let claimed = scene.claim_one().await;
        assert_eq!(envelope(&claimed).payload(), payloads[2].as_bytes());
        scene.settle(&claimed, done()).await;
        scene.claim_nothing().await;
        assert_eq!(stage.ask(&["EXISTS", "tidemill:queue:q:dropped"]), "0", "{payloads:?}");
    }
}

/// A batch is settled but for the jobs of one queue, and says so.
#[tokio::test]
async fn a_settlement_that_fails_for_one_queue_answers_for_the_others() {
    for delivery in [Guarantee::AtLeastOnce, Guarantee::AtMostOnce] {
        let stage = Stage::new(delivery).await;
        let [sound, spoiled] = ["a", "b"].map(|name| {
            QueueHarness::new(
                stage.scene.store.clone(),
                Queue { name: QueueName::new(name).unwrap(), guarantee: delivery },
            )
        });
        let mut settlements = Vec::new();
        for scene in [&sound, &spoiled, &sound] {
            scene.enqueue(job()).await;
            let claimed = scene.claim_one().await;
            settlements.push(scene.settlement(&claimed, dead("bad")));
        }
        let prefix = if delivery == Guarantee::AtLeastOnce { "stream" } else { "queue" };
        let key = format!("tidemill:{prefix}:b:cancelled");
        stage.ask(&["SET", &key, "x"]);
        let (accepted, unknown) = (Verdict::Accepted, Verdict::Unknown);
        assert_eq!(
            sound.store.settle(SettleParams::current(&settlements)).await.unwrap(),
            [accepted, unknown, accepted]
        );
        sound.assert_counts([0, 0, 0, 2]).await;
        stage.ask(&["DEL", &key]);
        assert_eq!(sound.store.settle(SettleParams::current(&settlements[1..2])).await.unwrap(), [accepted]);
        assert_eq!(
            sound.store.settle(SettleParams::current(&settlements)).await.unwrap(),
            [Verdict::LeaseLost; 3]
        );
        sound.assert_counts([0, 0, 0, 2]).await;
        spoiled.assert_counts([0, 0, 0, 1]).await;
    }
}

/// The server has settled the jobs of one queue, and its answer about those of the next is lost.
#[tokio::test]
async fn a_settlement_keeps_the_verdicts_from_before_an_answer_that_is_lost() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::to(redis.port()).await.unwrap();
    let options = RedisOptions::parse(&proxy.url(&redis.url())).unwrap();
    let store = Arc::new(RedisStore::connect(options).await.unwrap());
    let [first, second] = ["a", "b"].map(|name| {
        let queue = Queue { name: QueueName::new(name).unwrap(), guarantee: Guarantee::AtLeastOnce };
        QueueHarness::new(store.clone(), queue)
    });
    let mut settlements = Vec::new();
    for scene in [&first, &second] {
        scene.enqueue(job()).await;
        let claimed = scene.claim_one().await;
        settlements.push(scene.settlement(&claimed, dead("bad")));
    }
    proxy.drop_answer_to("tidemill:stream:b:cancelled");
    let answer = first.store.settle(SettleParams::current(&settlements)).await.unwrap();
    assert_eq!(answer, [Verdict::Accepted, Verdict::Unknown]);
    assert_eq!(proxy.answers_dropped(), 1);
}

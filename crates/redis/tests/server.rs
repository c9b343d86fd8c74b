//! What only Redis has: foreign programs, servers that forget, refuse or fill up, and keys that must expire.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::chain::JobLinks;
use tidemill_core::settle::{Change, Outcome, Settlement, decide_malformed};
use tidemill_core::store::{
    ClaimParams, EnqueueParams, Enqueued, Extended, Jobs, NewJob, SettleParams, Verdict,
};
use tidemill_core::{
    Client, DeathReason, Envelope, Error, Guarantee, Job, JobId, Namespace, Queue, QueueName, job::JobState,
};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::{LONG, QueueHarness, SHORT};
use tidemill_testkit::servers::{Redis, RedisCluster, RedisOptions as ServerOptions};

const SEED: &str = r#"{"job_id":"a1","task_type":"navigate_extract","attempts":0,"max_attempts":2,"payload":{"n":1e400},"x-trace":[{}]}"#;

struct Stage {
    redis: Redis,
    store: Arc<RedisStore>,
}

impl Stage {
    async fn new() -> Self {
        Self::on(Redis::start().unwrap()).await
    }

    async fn on(redis: Redis) -> Self {
        let namespace = Namespace::new("msaas:dev:").unwrap();
        let options = RedisOptions::parse(&redis.url()).unwrap().namespace(namespace);
        Self { store: Arc::new(RedisStore::connect(options).await.unwrap()), redis }
    }

    fn scene(&self, name: &str, delivery: Guarantee) -> QueueHarness {
        QueueHarness::new(
            self.store.clone(),
            Queue { name: QueueName::new(name).unwrap(), guarantee: delivery },
        )
    }

    fn ask(&self, command: &[&str]) -> String {
        self.redis.command(command).unwrap()
    }
}

fn untracked(count: usize) -> Vec<NewJob> {
    let job = |_| {
        let id = JobId::generate();
        let json = format!(r#"{{"job_id":"{id}","task_type":"t","payload":null,"tracked":false}}"#);
        NewJob {
            id,
            envelope: json.into(),
            due: tidemill_core::store::Due::Now,
            tracked: false,
            generated_id: false,
            links: JobLinks::default(),
        }
    };
    (0..count).map(job).collect()
}

#[tokio::test]
async fn what_another_program_pushes_is_a_job_and_its_fields_survive() {
    let stage = Stage::new().await;
    for (name, delivery) in
        [("jobs.generic", Guarantee::AtMostOnce), ("jobs.browser", Guarantee::AtLeastOnce)]
    {
        match delivery {
            Guarantee::AtMostOnce => stage.ask(&["LPUSH", "msaas:dev:queue:jobs.generic", SEED]),
            Guarantee::AtLeastOnce => {
                stage.ask(&["XADD", "msaas:dev:stream:jobs.browser", "*", "data", SEED])
            }
        };
        let scene = stage.scene(name, delivery);
        for attempt in 0..2 {
            let claimed = scene.claim_one().await;
            assert_eq!(claimed.body.as_ref().unwrap().attempts(), attempt);
            scene.settle(&claimed, Outcome::Retry { error: "no".into(), after: Some(Duration::ZERO) }).await;
        }
        let letter = scene.letter(&JobId::new("a1").unwrap()).await;
        let text = String::from_utf8(letter.bytes.to_vec()).unwrap();
        assert!(text.contains(r#""payload":{"n":1e400},"x-trace":[{}]"#), "{text}");
        assert!(
            text.contains(r#""dlq_reason":"max_attempts_exceeded""#) && text.contains("dlq_ts"),
            "{text}"
        );
        assert_eq!(
            tidemill_core::dead_letter::redrive::drop_dead(&*stage.store, &scene.queue, &Default::default())
                .await
                .unwrap(),
            1
        );
    }
}

#[tokio::test]
async fn what_is_no_envelope_is_buried_with_its_bytes_and_disturbs_nothing() {
    let stage = Stage::new().await;
    stage.ask(&["XADD", "msaas:dev:stream:q", "*", "data", "garbage"]);
    stage.ask(&["XADD", "msaas:dev:stream:q", "*", "other", "field", "more", "fields"]);
    stage.ask(&["XADD", "msaas:dev:stream:q", "*", "data", SEED]);
    stage.ask(&["LPUSH", "msaas:dev:queue:q", "[]"]);
    stage.ask(&["ZADD", "msaas:dev:queue:q:scheduled", "1", "not json either"]);
    for (delivery, garbage) in [(Guarantee::AtLeastOnce, 2), (Guarantee::AtMostOnce, 2)] {
        let scene = stage.scene("q", delivery);
        scene.promote().await;
        for claimed in scene.try_claim(10).await {
            let Err((raw, error)) = &claimed.body else { continue };
            let change = decide_malformed(&claimed.lease, raw, error, scene.store.clock().now());
            let settlement = Settlement { lease: claimed.lease.clone(), change };
            assert_eq!(
                scene.store.settle(SettleParams::current(&[settlement])).await.unwrap(),
                [Verdict::Accepted]
            );
        }
        let letters = scene.list(JobState::Dead, 10).await;
        assert_eq!(letters.len(), garbage);
        for info in letters {
            let letter = scene.letter(&info.job).await;
            assert_eq!(letter.reason, DeathReason::InvalidEnvelope);
            assert!(String::from_utf8_lossy(&letter.bytes).contains("\"raw\":"));
        }
    }
}

#[tokio::test]
async fn a_letter_that_another_program_wrote_can_be_redriven() {
    let stage = Stage::new().await;
    let scene = stage.scene("jobs.browser", Guarantee::AtLeastOnce);
    let letter = SEED.replace("\"attempts\":0", "\"attempts\":2,\"dlq_reason\":\"max_attempts_exceeded\"");
    stage.ask(&["XADD", "msaas:dev:stream:jobs.browser:dlq", "*", "data", &letter]);
    let moved =
        tidemill_core::dead_letter::redrive::redrive(&*stage.store, &scene.queue, &Default::default())
            .await
            .unwrap();
    assert_eq!(moved, 1);
    assert_eq!(scene.claim_one().await.body.unwrap().attempts(), 0);
    assert_eq!(stage.ask(&["XLEN", "msaas:dev:stream:jobs.browser:dlq"]), "0");
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    scene.enqueue_many(3).await;
    stage.ask(&["SCRIPT", "FLUSH"]);
    scene.enqueue_many(3).await;
    let jobs = scene.claim(6).await;
    stage.ask(&["SCRIPT", "FLUSH"]);
    for job in &jobs {
        scene.settle(job, Outcome::Done(Bytes::new())).await;
    }
    scene.assert_counts([0, 0, 0, 0]).await;
}

#[tokio::test]
async fn after_flushall_the_group_is_made_again() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    scene.enqueue_many(1).await;
    let lost = scene.claim_one().await;
    stage.ask(&["FLUSHALL"]);
    assert_eq!(scene.try_settle(&lost, Outcome::Done(Bytes::new())).await, Verdict::LeaseLost);
    scene.enqueue_many(2).await;
    assert_eq!(scene.claim(2).await.len(), 2);
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let redis = Redis::with(ServerOptions { appendonly: true, ..ServerOptions::default() }).unwrap();
    let stage = Stage::on(redis).await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    scene.enqueue_many(2).await;
    stage.redis.restart().unwrap();
    let queue = scene.queue.clone();
    let mut answers = Vec::new();
    for _ in 0..20 {
        let claim = ClaimParams::now(&queue, &scene.worker, LONG, 2);
        answers.push(stage.store.claim(claim).await);
        if answers.last().unwrap().is_ok() {
            break;
        }
    }
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    assert!(failed <= 2, "{answers:?}");
    assert_eq!(answers.pop().unwrap().unwrap().len(), 2);
}

#[tokio::test]
async fn a_full_server_refuses_jobs_and_lets_running_ones_end() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    scene.enqueue_many(3).await;
    let jobs = scene.claim(3).await;
    stage.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = scene.enqueue_batch(vec![tidemill_testkit::conformance::harness::job()]).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    let batch = untracked(3);
    let refused = scene.store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &batch }).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    let leases: Vec<_> = jobs.iter().map(|job| job.lease.clone()).collect();
    assert_eq!(scene.extend(&leases).await, vec![Extended::Yes; 3]);
    scene.settle(&jobs[0], Outcome::Done(Bytes::new())).await;
    scene.settle(&jobs[1], Outcome::Retry { error: "no".into(), after: Some(LONG) }).await;
    scene.settle(&jobs[2], tidemill_testkit::conformance::harness::dead("bad")).await;
    scene.assert_counts([0, 1, 0, 1]).await;
}

#[tokio::test]
async fn a_worker_that_comes_to_empty_a_full_server_is_let_in() {
    for delivery in [Guarantee::AtLeastOnce, Guarantee::AtMostOnce] {
        let stage = Stage::new().await;
        let client = stage.scene("q", delivery);
        client.enqueue_many(3).await;
        stage.ask(&["CONFIG", "SET", "maxmemory", "1"]);
        let worker = stage.scene("q", delivery);
        for job in worker.claim(3).await {
            worker.settle(&job, Outcome::Done(Bytes::new())).await;
        }
    }
}

#[tokio::test]
async fn servers_that_would_lose_jobs_are_refused_with_a_reason() {
    let refused = async |url: &str| match RedisStore::connect(RedisOptions::parse(url).unwrap()).await {
        Err(error) => error.full_message(),
        Ok(_) => panic!("{url} was accepted"),
    };
    let redis = Redis::start().unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    assert!(refused(&redis.url()).await.contains("noeviction"));
    let allowed = RedisOptions::parse(&format!("{}?allow_eviction=true", redis.url())).unwrap();
    RedisStore::connect(allowed).await.unwrap();
    let as_cluster = redis.url().replace("redis://", "redis+cluster://");
    assert!(refused(&as_cluster).await.contains("not a Cluster"));
    redis.command(&["CONFIG", "SET", "requirepass", "hunter2"]).unwrap();
    let denied = refused(&redis.url().replace("//", "//:hunter1@")).await;
    assert!(denied.contains("access denied") && !denied.contains("hunter1"), "{denied}");
    let cluster = RedisCluster::start().unwrap();
    let node = cluster.nodes()[0].url();
    assert!(refused(&node).await.contains("redis+cluster://"));
    assert!(refused("redis://127.0.0.1:1").await.contains("not available"));
}

#[tokio::test]
async fn untracked_jobs_run_and_leave_nothing() {
    let stage = Stage::new().await;
    for delivery in [Guarantee::AtLeastOnce, Guarantee::AtMostOnce] {
        let scene = stage.scene("q", delivery);
        let jobs = untracked(50);
        let add = scene.store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &jobs });
        assert_eq!(add.await.unwrap(), vec![Enqueued::Created; 50]);
        for claimed in scene.claim(50).await {
            scene.settle(&claimed, Outcome::Done(Bytes::new())).await;
        }
        scene.claim_nothing().await;
    }
    assert_eq!(stage.ask(&["EXISTS", "msaas:dev:jobs"]), "0");
    // Everything that is left but the registry and the empty stream goes by itself.
    let script = "local immortal = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
        if redis.call('PTTL', key) == -1 then table.insert(immortal, key) end end \
        table.sort(immortal) return table.concat(immortal, ' ')";
    let immortal = stage.ask(&["EVAL", script, "0"]);
    assert_eq!(immortal, "msaas:dev:queues msaas:dev:stream:q msaas:dev:stream:q:leases");
}

#[tokio::test]
async fn an_untracked_job_is_found_and_cancelled_by_its_id() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    let jobs = untracked(3);
    scene.store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &jobs }).await.unwrap();
    assert_eq!(scene.state(&jobs[1].id).await, Some(JobState::Ready));
    let cancelled = scene.store.cancel(&jobs[1].id).await.unwrap();
    assert_eq!(cancelled, tidemill_core::store::Cancelled::Removed);
    assert_eq!(scene.claim(2).await.len(), 2);
    scene.claim_nothing().await;
}

#[tokio::test]
async fn a_retried_untracked_job_leaves_no_index_entry() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    let jobs = untracked(1);
    scene.store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &jobs }).await.unwrap();
    let first = scene.claim_one().await;
    scene.settle(&first, Outcome::Retry { error: "no".into(), after: Some(Duration::ZERO) }).await;
    let second = scene.claim_one().await;
    assert!(!second.body.as_ref().is_ok_and(Envelope::tracked));
    scene.settle(&second, Outcome::Done(Bytes::new())).await;
    assert_eq!(stage.ask(&["EXISTS", "msaas:dev:jobs"]), "0");
}

#[tokio::test]
async fn a_worker_with_a_longer_lease_is_not_robbed_by_one_with_a_shorter() {
    let stage = Stage::new().await;
    let patient = stage.scene("q", Guarantee::AtLeastOnce).with_lease(LONG);
    patient.enqueue_many(1).await;
    let claimed = patient.claim_one().await;
    let hasty = patient.with_store(stage.store.clone()).with_lease(SHORT);
    tokio::time::sleep(SHORT * 3).await;
    assert_eq!(hasty.rescue().await, 0);
    patient.settle(&claimed, Outcome::Done(Bytes::new())).await;
}

#[tokio::test]
async fn a_lock_names_one_runner_and_always_expires() {
    let stage = Stage::new().await;
    let scene = stage.scene("jobs.generic", Guarantee::AtMostOnce);
    stage.ask(&["LPUSH", "msaas:dev:queue:jobs.generic", SEED]);
    stage.ask(&["LPUSH", "msaas:dev:queue:jobs.generic", SEED]);
    let first = scene.claim_one().await;
    assert!(scene.try_claim(5).await.is_empty(), "a second copy ran beside the first");
    let life: i64 = stage.ask(&["PTTL", "msaas:dev:queue:jobs.generic:lock:a1"]).parse().unwrap();
    assert!(life > 0);
    scene.settle(&first, Outcome::Done(Bytes::new())).await;
    assert_eq!(stage.ask(&["EXISTS", "msaas:dev:queue:jobs.generic:lock:a1"]), "0");
}

/// Somebody sets the server's clock forward, and every lock runs out at once.
#[tokio::test]
async fn a_lock_that_has_run_out_is_held_again_until_a_rescue_has_ended_it() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtMostOnce);
    let job = scene.enqueue(tidemill_testkit::conformance::harness::job()).await;
    let claimed = scene.claim_one().await;
    let (lock, lease) = (format!("msaas:dev:queue:q:lock:{job}"), [claimed.lease.clone()]);
    assert_eq!(stage.ask(&["DEL", &lock]), "1");
    assert_eq!(scene.extend(&lease).await, [Extended::Yes]);
    let life: i64 = stage.ask(&["PTTL", &lock]).parse().unwrap();
    assert!(life > 0, "an extended lock runs out, too");
    assert_eq!(scene.rescue().await, 0, "its worker lives");
    assert_eq!(stage.ask(&["DEL", &lock]), "1");
    assert_eq!(scene.rescue().await, 1);
    assert_eq!(scene.extend(&lease).await, [Extended::Lost]);
    assert_eq!(stage.ask(&["EXISTS", &lock]), "0");
}

#[tokio::test]
async fn a_consumer_that_holds_a_job_is_never_deleted() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    scene.enqueue_many(1).await;
    let claimed = scene.claim_one().await;
    scene.store.leave(&scene.worker, std::slice::from_ref(&scene.queue)).await.unwrap();
    scene.settle(&claimed, Outcome::Done(Bytes::new())).await;
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Ping;
impl Job for Ping {
    const KIND: &'static str = "ping";
    type Output = ();
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_job() {
    let stage = Stage::new().await;
    let proxy = tidemill_testkit::faults::Proxy::to(stage.redis.port()).await.unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let store = RedisStore::connect(RedisOptions::parse(&url).unwrap()).await.unwrap();
    let client = Client::new(Arc::new(store));
    client.jobs((0..5).map(|_| Ping)).enqueue().await.unwrap();
    proxy.drop_answer_to("EXEC");
    client.jobs((0..5).map(|_| Ping)).enqueue().await.unwrap();
    proxy.drop_answer_to("EVALSHA");
    client.job(Ping).enqueue().await.unwrap();
    assert_eq!(stage.ask(&["XLEN", "tidemill:stream:default"]), "11");
}

#[tokio::test]
async fn a_change_of_a_lease_that_was_never_given_changes_nothing() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    scene.enqueue_many(1).await;
    let claimed = scene.claim_one().await;
    let mut lease = claimed.lease.clone();
    lease.token.0 += 1;
    let settlement = Settlement { lease, change: Change::Finish(None) };
    assert_eq!(scene.store.settle(SettleParams::current(&[settlement])).await.unwrap(), [Verdict::LeaseLost]);
    scene.assert_counts([0, 0, 1, 0]).await;
}

#[tokio::test]
async fn a_paused_list_gives_no_untracked_job_to_a_claim_that_waits() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtMostOnce);
    scene.store.pause(&scene.queue).await.unwrap();
    let jobs = untracked(3);
    scene.store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &jobs }).await.unwrap();
    for _ in 0..3 {
        assert!(scene.claim_with(3, 3, Duration::from_millis(50)).await.is_empty());
    }
    let other = RedisStore::connect(
        RedisOptions::parse(&stage.redis.url()).unwrap().namespace(Namespace::new("msaas:dev:").unwrap()),
    );
    let other = scene.with_store(Arc::new(other.await.unwrap()));
    assert!(other.claim_with(3, 3, Duration::from_millis(50)).await.is_empty());
    assert_eq!(stage.ask(&["LLEN", "msaas:dev:queue:q"]), "3");
}

#[tokio::test]
async fn a_key_of_the_wrong_type_loses_no_job() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtLeastOnce);
    let soon = tidemill_testkit::conformance::harness::JobSpec {
        due: tidemill_core::store::Due::In(Duration::from_millis(1)),
        ..Default::default()
    };
    scene.enqueue(soon.job()).await;
    stage.ask(&["SET", "msaas:dev:stream:q", "what is this?"]);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let promote =
        tidemill_core::store::PromoteParams { queues: std::slice::from_ref(&scene.queue), limit: 10 };
    assert_eq!(scene.store.promote(promote).await.unwrap().moved, 0);
    assert_eq!(stage.ask(&["ZCARD", "msaas:dev:stream:q:scheduled"]), "1");
}

#[tokio::test]
async fn a_dead_worker_with_a_short_lease_is_noticed_by_one_with_a_long_lease() {
    let stage = Stage::new().await;
    let dead = stage.scene("q", Guarantee::AtLeastOnce).with_lease(SHORT);
    dead.enqueue_many(1).await;
    dead.claim_one().await;
    let patient = dead.with_store(stage.store.clone()).with_lease(LONG);
    tidemill_testkit::conformance::until("the rescue", || async {
        (patient.rescue().await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_job_that_was_taken_by_a_process_that_died_at_once_is_forgotten() {
    let stage = Stage::new().await;
    let scene = stage.scene("q", Guarantee::AtMostOnce);
    let kept = tidemill_testkit::conformance::harness::JobSpec { keep: Some(LONG), ..Default::default() };
    let job = kept.job();
    scene.enqueue(job.clone()).await;
    let waiting = stage.scene("waiting", Guarantee::AtLeastOnce);
    let links = JobLinks { after: vec![job.id.clone()], dedup: None };
    let waiter = waiting.enqueue(NewJob { links, ..kept.job() }).await;
    stage.ask(&["RPOP", "msaas:dev:queue:q"]);
    assert_eq!(scene.enqueue_again(job.clone()).await, Enqueued::Exists);
    tidemill_testkit::conformance::until("the job to be forgotten", || async {
        scene.store.prune(std::slice::from_ref(&scene.queue)).await.unwrap();
        scene.state(&job.id).await.is_none().then_some(())
    })
    .await;
    assert_eq!(waiting.claim_one().await.lease.job, waiter);
    scene.enqueue(job).await;
}

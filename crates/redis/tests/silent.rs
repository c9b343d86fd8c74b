//! A Cluster one of whose servers does not answer: what concerns the others takes place.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::settle::Settlement;
use tidemill_core::store::{
    ClaimParams, Claimed, Due, ExtendParams, Extended, Jobs, Queues, RecoverParams, SettleParams,
    StartParams, Verdict,
};
use tidemill_core::{JobId, Lease, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{JobSpec, done};
use tidemill_testkit::conformance::{LONG, QueueHarness};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::servers::{Redis, RedisCluster};

/// Which server falls silent. Not the first, whose address is in the URL.
const SILENT: usize = 1;

/// A command without an answer fails after this time. What does not wait for one is sooner, however busy the machine.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

const PATIENCE: Duration = Duration::from_secs(60);

/// A Cluster with a proxy in front of one server, which swallows what is sent there.
struct Stage {
    store: Arc<RedisStore>,
    scene: QueueHarness,
    proxy: Proxy,
    _cluster: RedisCluster,
}

impl Stage {
    async fn new(queue: Queue) -> Self {
        let cluster = RedisCluster::start().unwrap();
        let proxy = Proxy::to(cluster.nodes()[SILENT].port()).await.unwrap();
        cluster.announce(SILENT, proxy.port()).unwrap();
        let store =
            Arc::new(RedisStore::connect(RedisOptions::parse(&cluster.url()).unwrap()).await.unwrap());
        let scene = QueueHarness::new(store.clone(), queue).with_lease(LONG);
        // Scripts are loaded, and every shard knows the worker.
        scene.claim_nothing().await;
        Self { store, scene, proxy, _cluster: cluster }
    }

    async fn claim(&self, max: usize, starting: usize, wait: Duration) -> Vec<Claimed> {
        let QueueHarness { queue, worker, lease, .. } = &self.scene;
        let claim = ClaimParams { wait, starting, ..ClaimParams::now(queue, worker, *lease, max) };
        self.store.claim(claim).await.unwrap()
    }

    /// Waits until the store says that jobs are to be recovered, and recovers them.
    async fn recovered(&self, known: &HashSet<Lease>) -> Vec<Claimed> {
        let QueueHarness { queue, worker, lease, .. } = &self.scene;
        let begun = Instant::now();
        while !self.store.needs_recover(queue, worker) {
            assert!(begun.elapsed() < PATIENCE, "nothing is in doubt");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.store.recover(RecoverParams { queue, worker, lease: *lease, known_leases: known }).await.unwrap()
    }
}

/// The result of a call that does not wait until the silent server's command fails.
async fn promptly<T>(call: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(RESPONSE_TIMEOUT, call).await;
    result.unwrap_or_else(|_| panic!("the call waited for the silent server"))
}

fn shards(leases: &[Lease]) -> HashSet<u16> {
    leases.iter().map(|lease| lease.shard).collect()
}

fn leases_of(claimed: &[Claimed]) -> Vec<Lease> {
    claimed.iter().map(|claimed| claimed.lease.clone()).collect()
}

async fn claims_go_on(queue: Queue) {
    let stage = Stage::new(queue).await;
    stage.scene.enqueue_many(96).await;
    stage.proxy.black_hole();
    let begun = Instant::now();
    let mut known = Vec::new();
    // The first claim notices the silence, those behind it do not ask any more.
    for _ in 0..3 {
        let claimed = stage.claim(12, 12, Duration::from_secs(30)).await;
        assert!(!claimed.is_empty());
        known.extend(leases_of(&claimed));
    }
    assert!(begun.elapsed() < RESPONSE_TIMEOUT, "{:?}", begun.elapsed());
    known.extend(leases_of(&stage.claim(96, 0, Duration::ZERO).await));
    // Together they would wait too long if each noticed the silence anew.
    promptly(async {
        for _ in 0..5 {
            known.extend(leases_of(&stage.claim(96, 0, Duration::ZERO).await));
        }
    })
    .await;
    // Whatever the silent server was asked for it gives now, to nobody who waits.
    stage.proxy.resume().await.unwrap();
    let begun = Instant::now();
    while known.len() < 96 {
        assert!(begun.elapsed() < PATIENCE, "{} of 96 jobs", known.len());
        let set: HashSet<Lease> = known.iter().cloned().collect();
        if stage.store.needs_recover(&stage.scene.queue, &stage.scene.worker)
            || begun.elapsed() > PATIENCE / 4
        {
            let QueueHarness { queue, worker, lease, .. } = &stage.scene;
            let recover = RecoverParams { queue, worker, lease: *lease, known_leases: &set };
            known.extend(leases_of(&stage.store.recover(recover).await.unwrap()));
        }
        known.extend(leases_of(&stage.claim(96, 96, Duration::ZERO).await));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let jobs: HashSet<&JobId> = known.iter().map(|lease| &lease.job).collect();
    assert_eq!((known.len(), jobs.len()), (96, 96), "each once");
}

#[tokio::test]
async fn jobs_of_the_other_servers_are_claimed_from_streams() {
    claims_go_on(Queue::at_least_once(QueueName::new("q").unwrap())).await;
}

#[tokio::test]
async fn jobs_of_the_other_servers_are_claimed_from_lists() {
    claims_go_on(Queue::at_most_once(QueueName::new("q").unwrap())).await;
}

#[tokio::test]
async fn a_claim_that_waits_returns_what_the_other_servers_are_given() {
    let stage = Stage::new(Queue::at_least_once(QueueName::new("q").unwrap())).await;
    let wait = Duration::from_secs(30);
    let begun = Instant::now();
    let (claimed, ()) = tokio::join!(stage.claim(4, 4, wait), async {
        // The reads are blocked, one on each shard, when the server falls silent.
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.proxy.black_hole();
        // Some of these are for the silent server, whose enqueue waits.
        let jobs = (0..24).map(|_| JobSpec::default().job());
        let enqueues = jobs.map(|job| stage.scene.enqueue_batch(vec![job]));
        let all = futures_util::future::join_all(enqueues);
        let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
    });
    assert!(!claimed.is_empty());
    assert!(begun.elapsed() < RESPONSE_TIMEOUT, "{:?}", begun.elapsed());
    stage.proxy.resume().await.unwrap();
    let known = leases_of(&claimed).into_iter().collect();
    stage.recovered(&known).await;
}

#[tokio::test]
async fn leases_on_the_other_servers_are_extended_and_nothing_is_said_of_the_rest() {
    let stage = Stage::new(Queue::at_least_once(QueueName::new("q").unwrap())).await;
    stage.scene.enqueue_many(64).await;
    let leases = leases_of(&stage.scene.claim(64).await);
    assert_eq!(stage.scene.extend(&leases).await, vec![Extended::Yes; 64]);
    stage.proxy.black_hole();
    let extend = ExtendParams { worker: &stage.scene.worker, leases: &leases, lease: stage.scene.lease };
    let held = promptly(stage.store.extend(extend)).await.unwrap();
    let of = |wanted: Extended| {
        let found = leases.iter().zip(&held).filter(|(_, held)| **held == wanted);
        found.map(|(lease, _)| lease.clone()).collect::<Vec<_>>()
    };
    let (extended, unknown) = (of(Extended::Yes), of(Extended::Unknown));
    assert_eq!(extended.len() + unknown.len(), 64, "{held:?}");
    assert!(!extended.is_empty() && !unknown.is_empty(), "{held:?}");
    assert!(shards(&extended).is_disjoint(&shards(&unknown)));
    // If nobody answers at all, that is an error.
    let extend = ExtendParams { worker: &stage.scene.worker, leases: &unknown, lease: stage.scene.lease };
    assert!(stage.store.extend(extend).await.is_err());
    stage.proxy.resume().await.unwrap();
    assert_eq!(stage.scene.extend(&leases).await, vec![Extended::Yes; 64]);
}

#[tokio::test]
async fn held_jobs_of_the_other_servers_start() {
    let stage = Stage::new(Queue::at_least_once(QueueName::new("q").unwrap())).await;
    stage.scene.enqueue_many(32).await;
    let leases = leases_of(&stage.claim(32, 0, Duration::ZERO).await);
    stage.proxy.black_hole();
    let start = StartParams { worker: &stage.scene.worker, leases: &leases };
    let verdicts = promptly(stage.store.start(start)).await.unwrap();
    let started = verdicts.iter().filter(|verdict| **verdict == Verdict::Accepted).count();
    assert!(started > 0 && started < 32, "{verdicts:?}");
}

#[tokio::test]
async fn jobs_of_the_other_servers_are_settled_and_those_of_the_silent_one_later() {
    let stage = Stage::new(Queue::at_least_once(QueueName::new("q").unwrap())).await;
    stage.scene.enqueue_many(64).await;
    let claimed = stage.scene.claim(64).await;
    let mut settlements: Vec<Settlement> =
        claimed.iter().map(|claimed| stage.scene.settlement(claimed, done())).collect();
    stage.proxy.black_hole();
    let verdicts = promptly(stage.store.settle(SettleParams::current(&settlements))).await.unwrap();
    let accepted = verdicts.iter().filter(|verdict| **verdict == Verdict::Accepted).count();
    let unknown = verdicts.iter().filter(|verdict| **verdict == Verdict::Unknown).count();
    assert!(accepted > 0 && unknown > 0 && accepted + unknown == 64, "{verdicts:?}");
    // The silent server is not asked any more, so nobody waits for it.
    promptly(async {
        for _ in 0..5 {
            let again = stage.store.settle(SettleParams::current(&settlements)).await.unwrap();
            assert_eq!(again.iter().filter(|verdict| **verdict == Verdict::Unknown).count(), unknown);
        }
    })
    .await;
    let mut verdicts = verdicts.into_iter();
    settlements.retain(|_| verdicts.next() == Some(Verdict::Unknown));
    stage.proxy.resume().await.unwrap();
    let begun = Instant::now();
    while stage.store.settle(SettleParams::current(&settlements)).await.is_err() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.scene.assert_counts([0, 0, 0, 0]).await;
}

#[tokio::test]
async fn queues_are_counted_without_the_silent_server_and_say_so() {
    let stage = Stage::new(Queue::at_least_once(QueueName::new("q").unwrap())).await;
    stage.scene.enqueue_many(64).await;
    stage.proxy.black_hole();
    let counts = promptly(stage.scene.counts()).await;
    assert!(counts.ready > 0 && counts.ready < 64, "{counts:?}");
    assert!(counts.problems.iter().any(|problem| problem.contains("are not counted")), "{counts:?}");
    // The silent server is not asked any more.
    promptly(stage.store.prune(std::slice::from_ref(&stage.scene.queue))).await.unwrap();
    // Both are said to have failed, and take place wherever they can.
    assert!(stage.store.pause(&stage.scene.queue).await.is_err());
    assert!(stage.scene.counts().await.paused);
    assert!(stage.store.resume(&stage.scene.queue).await.is_err());
    assert!(!stage.claim(4, 4, Duration::ZERO).await.is_empty());
}

/// How often a server was sent a command.
fn calls(node: &Redis, command: &str) -> u64 {
    let stats = node.command(&["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    line.map_or(0, |line| {
        let calls = line.split_once("calls=").unwrap().1;
        calls.split_once(',').unwrap().0.parse().unwrap()
    })
}

#[tokio::test]
async fn leases_on_the_other_servers_are_extended_while_one_is_stopped() {
    let cluster = RedisCluster::start().unwrap();
    let store = Arc::new(RedisStore::connect(RedisOptions::parse(&cluster.url()).unwrap()).await.unwrap());
    let scene =
        QueueHarness::new(store.clone(), Queue::at_least_once(QueueName::new("q").unwrap())).with_lease(LONG);
    scene.enqueue_many(64).await;
    let leases: Vec<Lease> = scene.claim(64).await.into_iter().map(|claimed| claimed.lease).collect();
    assert_eq!(scene.extend(&leases).await, vec![Extended::Yes; 64]);
    let nodes = cluster.nodes();
    let before: Vec<u64> = nodes.iter().map(|node| calls(node, "xclaim")).collect();
    assert_eq!(before.iter().sum::<u64>(), 64);
    for silent in 0..nodes.len() {
        let before: Vec<u64> = nodes.iter().map(|node| calls(node, "xclaim")).collect();
        nodes[silent].pause().unwrap();
        let extend = ExtendParams { worker: &scene.worker, leases: &leases, lease: scene.lease };
        let answer = promptly(store.extend(extend)).await;
        nodes[silent].resume().unwrap();
        let answer = answer.unwrap();
        assert!(answer.contains(&Extended::Unknown) && answer.contains(&Extended::Yes), "{answer:?}");
        for (at, node) in nodes.iter().enumerate().filter(|(at, _)| *at != silent) {
            let sent = calls(node, "xclaim") - before[at];
            assert!(sent > 0, "server {at} was asked for nothing while server {silent} was silent");
        }
    }
}

#[tokio::test]
async fn due_jobs_of_the_other_servers_are_promoted() {
    let cluster = RedisCluster::start().unwrap();
    let store = Arc::new(RedisStore::connect(RedisOptions::parse(&cluster.url()).unwrap()).await.unwrap());
    let scene = QueueHarness::new(store.clone(), Queue::at_least_once(QueueName::new("q").unwrap()));
    let soon = JobSpec { due: Due::In(Duration::from_millis(1)), ..JobSpec::default() };
    // Scripts are loaded, and nothing is due.
    scene.promote().await;
    let jobs = (0..64).map(|_| soon.job()).collect();
    scene.enqueue_batch(jobs).await.unwrap();
    cluster.nodes()[0].pause().unwrap();
    let promoted = promptly(scene.promote()).await;
    cluster.nodes()[0].resume().unwrap();
    assert!(promoted.moved > 0 && promoted.moved < 64, "{promoted:?}");
    assert!(promoted.next.is_some(), "the silent server is asked again");
}

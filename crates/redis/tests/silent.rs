//! A Cluster one of whose servers does not answer: what concerns the others takes place.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{Due, Extend, Held};
use tidemill_core::{Lease, Queue, QueueName, Store};
use tidemill_redis::{Options, RedisStore};
use tidemill_testkit::conformance::scene::Traits;
use tidemill_testkit::conformance::{LONG, Scene};
use tidemill_testkit::servers::{Redis, RedisCluster};

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
async fn leases_on_the_other_servers_are_extended() {
    let cluster = RedisCluster::start().unwrap();
    let store = Arc::new(RedisStore::connect(Options::parse(&cluster.url()).unwrap()).await.unwrap());
    let scene = Scene::new(store.clone(), Queue::at_least_once(QueueName::new("q").unwrap())).leasing(LONG);
    scene.enqueue_many(64).await;
    let leases: Vec<Lease> = scene.claim(64).await.into_iter().map(|claimed| claimed.lease).collect();
    assert_eq!(scene.extend(&leases).await, vec![Held::Yes; 64]);
    let nodes = cluster.nodes();
    let before: Vec<u64> = nodes.iter().map(|node| calls(node, "xclaim")).collect();
    assert_eq!(before.iter().sum::<u64>(), 64);
    for silent in 0..nodes.len() {
        let before: Vec<u64> = nodes.iter().map(|node| calls(node, "xclaim")).collect();
        nodes[silent].pause().unwrap();
        let extend = Extend { worker: &scene.worker, leases: &leases, lease: scene.lease };
        // The answer is that one server gave none.
        let answer = store.extend(extend).await;
        nodes[silent].resume().unwrap();
        assert!(answer.is_err(), "{answer:?}");
        for (at, node) in nodes.iter().enumerate().filter(|(at, _)| *at != silent) {
            let sent = calls(node, "xclaim") - before[at];
            assert!(sent > 0, "server {at} was asked for nothing while server {silent} was silent");
        }
    }
}

#[tokio::test]
async fn due_jobs_of_the_other_servers_are_promoted() {
    let cluster = RedisCluster::start().unwrap();
    let store = Arc::new(RedisStore::connect(Options::parse(&cluster.url()).unwrap()).await.unwrap());
    let scene = Scene::new(store.clone(), Queue::at_least_once(QueueName::new("q").unwrap()));
    let soon = Traits { due: Due::In(Duration::from_millis(1)), ..Traits::default() };
    // Scripts are loaded, and nothing is due.
    scene.promote().await;
    let jobs = (0..64).map(|_| soon.job()).collect();
    scene.enqueue_batch(jobs).await.unwrap();
    cluster.nodes()[0].pause().unwrap();
    let promoted = scene.promote().await;
    cluster.nodes()[0].resume().unwrap();
    assert!(promoted.moved > 0 && promoted.moved < 64, "{promoted:?}");
    assert!(promoted.next.is_some(), "the silent server is asked again");
}

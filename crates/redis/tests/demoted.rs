//! A master that becomes a replica behind an address that moves: every call follows to the promoted server.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tidemill_core::store::{ExtendParams, Extended, Jobs, SettleParams, Verdict};
use tidemill_core::{Error, Guarantee, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::conformance::harness::{done, job, until};
use tidemill_testkit::servers::Redis;
use tokio::net::{TcpListener, TcpStream};

/// An address that can be moved: new connections go to the new server, old ones stay where they are.
struct Moving {
    port: u16,
    target: Arc<AtomicU16>,
}

impl Moving {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let moving =
            Self { port: listener.local_addr().unwrap().port(), target: Arc::new(AtomicU16::new(port)) };
        let target = moving.target.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let to = (Ipv4Addr::LOCALHOST, target.load(Ordering::SeqCst));
                let Ok(mut server) = TcpStream::connect(to).await else { continue };
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
            }
        });
        moving
    }
}

fn ask(redis: &Redis, command: &[&str]) -> String {
    redis.command(command).unwrap()
}

/// Repeats a call as a worker does, while the store is not available.
async fn persist<T, F: Future<Output = Result<T, Error>>>(what: &str, mut call: impl FnMut() -> F) -> T {
    until(what, || {
        let call = call();
        async {
            match call.await {
                Ok(answer) => Some(answer),
                Err(Error::Unavailable { .. } | Error::Unanswered { .. }) => None,
                Err(error) => panic!("{error:?}"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn claims_settles_and_heartbeats_follow_to_the_promoted_server() {
    let (old, new) = (Redis::start().unwrap(), Redis::start().unwrap());
    let moving = Moving::to(old.port()).await;
    ask(&new, &["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    until("the replica to be in step", || async {
        let link = ask(&new, &["INFO", "replication"]);
        link.contains("master_link_status:up").then_some(())
    })
    .await;
    let url = format!("redis://127.0.0.1:{}", moving.port);
    let store = Arc::new(RedisStore::connect(RedisOptions::parse(&url).unwrap()).await.unwrap());
    for delivery in [Guarantee::AtLeastOnce, Guarantee::AtMostOnce] {
        let scene = QueueHarness::new(
            store.clone(),
            Queue { name: QueueName::new("q").unwrap(), guarantee: delivery },
        );
        scene.enqueue_many(2).await;
    }
    let scene = QueueHarness::new(store.clone(), Queue::at_least_once(QueueName::new("q").unwrap()));
    let claimed = scene.claim_one().await;
    // A read that blocks is under way when the server changes its role.
    let waiting = tokio::spawn({
        let other = QueueHarness::new(store.clone(), Queue::at_least_once(QueueName::new("empty").unwrap()));
        async move {
            let claim = tidemill_core::store::ClaimParams {
                wait: std::time::Duration::from_secs(2),
                ..tidemill_core::store::ClaimParams::now(&other.queue, &other.worker, other.lease, 1)
            };
            let _ = other.store.claim(claim).await;
        }
    });
    assert_eq!(ask(&old, &["WAIT", "1", "10000"]), "1");
    ask(&new, &["REPLICAOF", "NO", "ONE"]);
    ask(&old, &["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    moving.target.store(new.port(), Ordering::SeqCst);

    let leases = [claimed.lease.clone()];
    let extend = || store.extend(ExtendParams { worker: &scene.worker, leases: &leases, lease: scene.lease });
    assert_eq!(persist("the heartbeat to follow", extend).await, [Extended::Yes]);
    let end = [scene.settlement(&claimed, done())];
    assert_eq!(
        persist("the settlement to follow", || store.settle(SettleParams::current(&end))).await,
        [Verdict::Accepted]
    );
    waiting.await.unwrap();
    let next =
        || store.claim(tidemill_core::store::ClaimParams::now(&scene.queue, &scene.worker, scene.lease, 1));
    let next = persist("the claim to follow", next).await;
    assert_eq!(next.len(), 1);
    scene.settle(&next[0], done()).await;
    scene.enqueue(job()).await;
    scene.assert_counts([1, 0, 0, 0]).await;
    assert_eq!(ask(&new, &["XLEN", "tidemill:stream:q"]), "1");
}

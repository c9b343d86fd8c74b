//! A server that has forgotten everything ends every lease: that is an answer, not an error. An error would make
//! a worker try again for ever, and keep it from extending what it holds elsewhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::chain::JobLinks;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{
    ClaimParams, Due, EnqueueParams, ExtendParams, Extended, Jobs, NewJob, SettleParams, StartParams, Verdict,
};
use tidemill_core::{HolderId, JobId, Lease, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::servers::Redis;

const LEASE: Duration = Duration::from_secs(30);

fn job() -> NewJob {
    let id = JobId::generate();
    let envelope = Bytes::from(format!(r#"{{"job_id":"{id}","task_type":"t"}}"#));
    NewJob { id, envelope, due: Due::Now, tracked: true, generated_id: false, links: JobLinks::default() }
}

/// Claims one started and one held job, then has the server forget everything.
async fn flushed(server: &Redis, queue: &Queue, worker: &HolderId) -> (RedisStore, Vec<Lease>) {
    let store = RedisStore::connect(RedisOptions::parse(&server.url()).unwrap()).await.unwrap();
    store.enqueue(EnqueueParams { queue, jobs: &[job(), job()] }).await.unwrap();
    let claim = ClaimParams { starting: 1, ..ClaimParams::now(queue, worker, LEASE, 2) };
    let leases: Vec<_> = store.claim(claim).await.unwrap().into_iter().map(|claimed| claimed.lease).collect();
    assert_eq!(leases.len(), 2);
    server.command(&["FLUSHALL"]).unwrap();
    (store, leases)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_lease_is_lost_and_the_next_job_is_given_out() {
    let server = Redis::start().unwrap();
    let queue = Queue::at_least_once(QueueName::new("jobs").unwrap());
    let worker = HolderId::from_process("host", 1, 0);
    let (store, leases) = flushed(&server, &queue, &worker).await;

    let extended =
        store.extend(ExtendParams { worker: &worker, leases: &leases, lease: LEASE }).await.unwrap();
    assert_eq!(extended, [Extended::Lost, Extended::Lost]);
    let started = store.start(StartParams { worker: &worker, leases: &leases }).await.unwrap();
    assert_eq!(started, [Verdict::LeaseLost, Verdict::LeaseLost]);
    let again = Change::Requeue { envelope: job().envelope, delay: Duration::ZERO };
    for change in [Change::Finish(None), again] {
        let settlement = |lease: &Lease| Settlement { lease: lease.clone(), change: change.clone() };
        let settlements: Vec<_> = leases.iter().map(settlement).collect();
        assert_eq!(store.settle(SettleParams::current(&settlements)).await.unwrap(), [Verdict::LeaseLost; 2]);
        assert_eq!(store.settle(SettleParams::expired(&settlements)).await.unwrap(), [Verdict::LeaseLost; 2]);
    }

    store.enqueue(EnqueueParams { queue: &queue, jobs: &[job()] }).await.unwrap();
    assert_eq!(store.claim(ClaimParams::now(&queue, &worker, LEASE, 2)).await.unwrap().len(), 1);
}

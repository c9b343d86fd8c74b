//! Claims whose answer was lost: the live worker recovers the jobs that they took.

use std::collections::HashSet;

use tidemill_core::store::{Claimed, Extended, RecoverParams, Verdict};
use tidemill_core::{Lease, HolderId};

use super::harness::{SHORT, done, envelope, job};
use super::{QueueHarness, StoreUnderTest};

async fn recover(harness: &QueueHarness, known: &[&Lease]) -> Vec<Claimed> {
    let known: HashSet<Lease> = known.iter().map(|lease| (*lease).clone()).collect();
    let (queue, worker, lease) = (&harness.queue, &harness.worker, harness.lease);
    harness.store.recover(RecoverParams { queue, worker, lease, known_leases: &known }).await.unwrap()
}

fn leases(claimed: &[Claimed]) -> HashSet<Lease> {
    claimed.iter().map(|claimed| claimed.lease.clone()).collect()
}

pub async fn what_a_worker_holds_and_does_not_know_is_recovered(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(5).await;
        let claimed = harness.claim(5).await;
        assert_eq!(leases(&recover(&harness, &[]).await), leases(&claimed));
        let known: Vec<&Lease> = claimed[..2].iter().map(|claimed| &claimed.lease).collect();
        assert_eq!(leases(&recover(&harness, &known).await), leases(&claimed[2..]));
        assert_eq!(leases(&recover(&harness, &known).await), leases(&claimed[2..]), "an answer may be lost");
        let all: Vec<&Lease> = claimed.iter().map(|claimed| &claimed.lease).collect();
        assert!(recover(&harness, &all).await.is_empty());
    }
}

pub async fn a_recovered_job_is_extended_started_and_settled(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let sent = job();
        harness.enqueue(sent.clone()).await;
        harness.claim_one().await;
        let found = recover(&harness, &[]).await.remove(0);
        assert_eq!((envelope(&found).attempts(), envelope(&found).bytes()), (0, &sent.envelope));
        let lease = [found.lease.clone()];
        assert_eq!(harness.extend(&lease).await, [Extended::Yes]);
        assert_eq!(harness.start(&lease).await, [Verdict::Accepted]);
        harness.settle(&found, done()).await;
        assert!(recover(&harness, &[]).await.is_empty());
        harness.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_held_job_is_recovered_too(subject: StoreUnderTest) {
    let harness = subject.harness();
    harness.enqueue_many(2).await;
    let mut claimed = harness.claim_with(2, 1, SHORT).await;
    while claimed.len() < 2 {
        claimed.extend(harness.claim_with(1, 0, SHORT).await);
    }
    assert_eq!(leases(&recover(&harness, &[]).await), leases(&claimed));
}

pub async fn a_worker_recovers_its_own_jobs_of_one_queue_only(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let elsewhere = subject.harness_on("elsewhere", harness.queue.guarantee);
        let mut other = harness.clone();
        other.worker = HolderId::from_process("other", 1, 0);
        for harness in [&harness, &other, &elsewhere] {
            harness.enqueue(job()).await;
            harness.claim_one().await;
        }
        for harness in [&harness, &other, &elsewhere] {
            assert_eq!(recover(harness, &[]).await.len(), 1);
        }
    }
}

pub async fn what_was_rescued_is_not_recovered(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue(job()).await;
    harness.claim_one().await;
    harness.expire_and_rescue(1).await;
    assert!(recover(&harness, &[]).await.is_empty());
    harness.assert_counts([1, 0, 0, 0]).await;
}

pub async fn nothing_is_recovered_from_a_queue_that_is_not_there(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        assert!(recover(&harness, &[]).await.is_empty());
    }
}

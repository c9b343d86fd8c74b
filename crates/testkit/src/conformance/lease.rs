//! Leases: extending, starting, losing.

use std::time::{Duration, Instant};

use tidemill_core::lease::{Lease, Token};
use tidemill_core::store::{ExtendParams, Extended, Verdict};

use super::StoreUnderTest;
use super::harness::{LONG, SHORT, dead, done, envelope, job, retry};

pub async fn an_extended_lease_does_not_run_out(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(Duration::from_millis(400));
    harness.enqueue(job()).await;
    let mut beat = Instant::now();
    let claimed = harness.claim_one().await;
    for _ in 0..10 {
        tokio::time::sleep(harness.lease / 4).await;
        let held = harness.extend(std::slice::from_ref(&claimed.lease)).await;
        // Only an extension that came in time proves anything.
        if beat.elapsed() >= harness.lease {
            return;
        }
        assert_eq!(held, [Extended::Yes]);
        beat = Instant::now();
        let expired = harness.all_expired(10).await;
        assert!(expired.is_empty() || beat.elapsed() >= harness.lease, "{expired:?}");
    }
}

pub async fn an_at_most_once_lease_is_extended_too(subject: StoreUnderTest) {
    let harness = subject.at_most_once_harness();
    let id = harness.enqueue(job()).await;
    let claimed = harness.claim_one().await;
    assert_eq!(harness.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
    assert_eq!(harness.get(&id).await.unwrap().held_by.as_deref(), Some(harness.worker.as_str()));
    harness.settle(&claimed, done()).await;
}

pub async fn a_lease_is_lost_when_its_job_is_settled(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for outcome in [done(), retry(Duration::ZERO), retry(LONG), dead("bad")] {
            harness.enqueue(job()).await;
            let claimed = harness.claim_one().await;
            harness.settle(&claimed, outcome).await;
            assert_eq!(harness.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Lost]);
            assert_eq!(harness.start(std::slice::from_ref(&claimed.lease)).await, [Verdict::LeaseLost]);
            harness.store.purge(&harness.queue).await.unwrap();
        }
    }
}

pub async fn a_lease_is_lost_when_its_job_is_rescued(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue(job()).await;
    let late = harness.claim_one().await;
    harness.expire_and_rescue(1).await;
    assert_eq!(harness.extend(std::slice::from_ref(&late.lease)).await, [Extended::Lost]);
    let harness = harness.with_lease(LONG);
    let now = harness.claim_one().await;
    let both = [late.lease, now.lease];
    assert_eq!(harness.extend(&both).await, [Extended::Lost, Extended::Yes]);
}

pub async fn an_expired_lease_can_be_extended_until_it_is_rescued(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue(job()).await;
    let claimed = harness.claim_one().await;
    harness.expire(1).await;
    assert_eq!(harness.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
    harness.settle(&claimed, done()).await;
}

pub async fn answers_come_in_the_order_of_the_leases(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(20).await;
        let mut claimed = harness.claim(20).await;
        for gone in claimed.iter().step_by(3) {
            harness.settle(gone, done()).await;
        }
        let expected: Vec<_> =
            (0..20).map(|index| if index % 3 == 0 { Extended::Lost } else { Extended::Yes }).rev().collect();
        claimed.reverse();
        let leases: Vec<_> = claimed.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(harness.extend(&leases).await, expected);
    }
}

pub async fn a_wrong_token_extends_and_starts_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue(job()).await;
        let claimed = harness.claim_one().await;
        for token in [claimed.lease.token.0 + 1, claimed.lease.token.0 - 1].map(Token) {
            let wrong = [Lease { token, ..claimed.lease.clone() }];
            assert_eq!(harness.extend(&wrong).await, [Extended::Lost]);
            assert_eq!(harness.start(&wrong).await, [Verdict::LeaseLost]);
        }
        harness.settle(&claimed, done()).await;
    }
}

pub async fn a_held_job_is_extended_started_and_settled(subject: StoreUnderTest) {
    let harness = subject.harness();
    harness.enqueue(job()).await;
    let held = harness.claim_with(1, 0, Duration::from_secs(5)).await.remove(0);
    assert!(!held.started);
    let lease = std::slice::from_ref(&held.lease);
    assert_eq!(harness.extend(lease).await, [Extended::Yes]);
    assert_eq!(harness.start(lease).await, [Verdict::Accepted]);
    // Every call is safe to repeat: the first answer may have been lost.
    assert_eq!(harness.start(lease).await, [Verdict::Accepted]);
    harness.settle(&held, done()).await;
}

pub async fn a_started_job_counts_its_crash(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue(job()).await;
    let held = harness.claim_with(1, 0, Duration::from_secs(5)).await.remove(0);
    if harness.start(std::slice::from_ref(&held.lease)).await == [Verdict::Accepted] {
        harness.expire_and_rescue(1).await;
        assert_eq!(envelope(&harness.claim_one().await).crashes(), 1);
    }
}

pub async fn nothing_to_extend_or_start_is_no_error(subject: StoreUnderTest) {
    let harness = subject.harness();
    let extend = ExtendParams { worker: &harness.worker, leases: &[], lease: LONG };
    assert!(harness.store.extend(extend).await.unwrap().is_empty());
    assert!(harness.start(&[]).await.is_empty());
}

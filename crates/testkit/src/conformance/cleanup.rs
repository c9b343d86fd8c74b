//! After everything is drained, no data remains.

use std::slice::from_ref;
use std::time::Duration;

use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead};
use tidemill_core::settle::Outcome;
use tidemill_core::store::Due;

use super::harness::{LONG, SHORT, JobSpec, dead, done, job, retry, until};
use super::{QueueHarness, StoreUnderTest};

/// Asserts that a drained queue leaves no data, once its worker has left.
pub async fn assert_nothing_is_left(subject: &StoreUnderTest, harness: &QueueHarness) {
    harness.store.leave(&harness.worker, from_ref(&harness.queue)).await.unwrap();
    harness.assert_counts([0, 0, 0, 0]).await;
    let mut left = Vec::new();
    for _ in 0..100 {
        harness.store.prune(from_ref(&harness.queue)).await.unwrap();
        left = subject.list_leftovers().await;
        if left.is_empty() {
            return;
        }
        // Data that expires by itself may take a moment.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("left behind: {left:?}");
}

pub async fn a_finished_job_leaves_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(20).await;
        for claimed in harness.claim(20).await {
            harness.settle(&claimed, done()).await;
        }
        assert_nothing_is_left(&subject, &harness).await;
    }
}

pub async fn every_way_to_end_leaves_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let outcomes = [done(), retry(Duration::ZERO), Outcome::Discard(String::new()), Outcome::Cancelled, dead("bad")];
        for outcome in outcomes {
            let id = harness.enqueue(JobSpec { max_attempts: 1, ..JobSpec::default() }.job()).await;
            let claimed = harness.claim_one().await;
            harness.store.cancel(&id).await.unwrap();
            harness.extend(from_ref(&claimed.lease)).await;
            harness.settle(&claimed, outcome).await;
        }
        drop_dead(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap();
        assert_nothing_is_left(&subject, &harness).await;
    }
}

pub async fn cancelled_and_purged_jobs_leave_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let later = JobSpec { due: Due::In(LONG), ..JobSpec::default() };
        for traits in [JobSpec::default(), later] {
            let cancelled = harness.enqueue(traits.job()).await;
            harness.enqueue(traits.job()).await;
            harness.store.cancel(&cancelled).await.unwrap();
        }
        harness.store.purge(&harness.queue).await.unwrap();
        assert_nothing_is_left(&subject, &harness).await;
    }
}

pub async fn expired_records_leave_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for _ in 0..5 {
            harness.enqueue(JobSpec { keep: Some(Duration::from_millis(50)), ..JobSpec::default() }.job()).await;
            harness.settle(&harness.claim_one().await, done()).await;
        }
        assert_nothing_is_left(&subject, &harness).await;
    }
}

pub async fn rescued_and_redriven_jobs_leave_nothing(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue(JobSpec { max_attempts: 1, ..JobSpec::default() }.job()).await;
    harness.claim(1).await;
    harness.expire_and_rescue(1).await;
    tidemill_core::dead_letter::redrive::redrive(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap();
    harness.settle(&harness.claim_one().await, done()).await;
    assert_nothing_is_left(&subject, &harness).await;
}

pub async fn abandoned_at_most_once_jobs_leave_nothing(subject: StoreUnderTest) {
    let harness = subject.at_most_once_harness().with_lease(SHORT);
    harness.enqueue_many(5).await;
    harness.claim(5).await;
    until("the leases to run out", || async {
        harness.rescue().await;
        harness.store.prune(from_ref(&harness.queue)).await.unwrap();
        (harness.counts().await.running == 0).then_some(())
    })
    .await;
    assert_nothing_is_left(&subject, &harness).await;
}

pub async fn a_paused_and_resumed_queue_leaves_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.store.pause(&harness.queue).await.unwrap();
        harness.enqueue(job()).await;
        harness.store.resume(&harness.queue).await.unwrap();
        harness.settle(&harness.claim_one().await, done()).await;
        assert_nothing_is_left(&subject, &harness).await;
    }
}

pub async fn looking_leaves_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.claim_nothing().await;
        harness.claim_with(1, 1, Duration::from_millis(20)).await;
        harness.promote().await;
        harness.rescue().await;
        harness.store.list_queues().await.unwrap();
        harness.get(&job().id).await;
        assert_nothing_is_left(&subject, &harness).await;
    }
}

//! Pruning of expired records.

use std::slice::from_ref;
use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::name::HolderId;
use tidemill_core::store::{Due, Enqueued};

use super::StoreUnderTest;
use super::harness::{LONG, JobSpec, done, job, until};

pub async fn a_record_is_kept_as_long_as_it_says(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(JobSpec { keep: Some(LONG), ..JobSpec::default() }.job()).await;
        harness.settle(&harness.claim_one().await, done()).await;
        for _ in 0..3 {
            assert_eq!(harness.store.prune(from_ref(&harness.queue)).await.unwrap().records, 0);
        }
        assert_eq!(harness.state(&id).await, Some(JobState::Done));
    }
}

pub async fn an_expired_record_is_removed_and_its_id_is_free(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = JobSpec { keep: Some(Duration::from_millis(100)), ..JobSpec::default() }.job();
        harness.enqueue(job.clone()).await;
        harness.settle(&harness.claim_one().await, done()).await;
        until("the record to go", || async {
            harness.store.prune(from_ref(&harness.queue)).await.unwrap();
            harness.get(&job.id).await.is_none().then_some(())
        })
        .await;
        let again = job;
        assert_eq!(harness.enqueue_again(again).await, Enqueued::Created);
    }
}

pub async fn nothing_that_lives_is_pruned(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.bury(&JobSpec::default(), "bad").await;
        harness.enqueue_many(2).await;
        let running = harness.claim_one().await;
        harness.enqueue(JobSpec { due: Due::In(LONG), ..JobSpec::default() }.job()).await;
        for _ in 0..3 {
            harness.store.prune(from_ref(&harness.queue)).await.unwrap();
        }
        harness.assert_counts([1, 1, 1, 1]).await;
        harness.settle(&running, done()).await;
        harness.claim(1).await;
    }
}

pub async fn a_worker_that_leaves_disturbs_no_other(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let other = harness.with_store(subject.other_connection().await);
        harness.enqueue_many(3).await;
        let (mine, theirs) = (harness.claim_one().await, other.claim_one().await);
        harness.settle(&mine, done()).await;
        for _ in 0..2 {
            harness.store.leave(&harness.worker, from_ref(&harness.queue)).await.unwrap();
        }
        other.settle(&theirs, done()).await;
        // The worker may come back.
        harness.settle(&harness.claim_one().await, done()).await;
    }
}

pub async fn a_worker_nobody_knows_may_leave(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let stranger = HolderId::from_process("stranger", 7, 7);
        harness.store.leave(&stranger, from_ref(&harness.queue)).await.unwrap();
        harness.enqueue(job()).await;
        harness.store.leave(&stranger, from_ref(&harness.queue)).await.unwrap();
        harness.claim(1).await;
    }
}

//! Pausing and purging of queues.

use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::store::{Due};

use super::harness::{LONG, JobSpec, done, job, until};
use super::{QueueHarness, StoreUnderTest};

pub async fn a_paused_queue_gives_nothing_to_anyone(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue(job()).await;
        let elsewhere = harness.with_store(subject.other_connection().await);
        for _ in 0..2 {
            elsewhere.store.pause(&harness.queue).await.unwrap();
        }
        harness.enqueue(job()).await;
        for harness in [&harness, &elsewhere] {
            assert!(harness.claim_with(5, 5, Duration::from_millis(100)).await.is_empty());
            assert!(harness.counts().await.paused);
        }
        harness.assert_counts([2, 0, 0, 0]).await;
    }
}

pub async fn a_resumed_queue_gives_what_came_meanwhile(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.store.pause(&harness.queue).await.unwrap();
        let id = harness.enqueue(job()).await;
        harness.claim_nothing().await;
        for _ in 0..2 {
            subject.other_connection().await.resume(&harness.queue).await.unwrap();
        }
        assert!(!harness.counts().await.paused);
        assert_eq!(harness.claim_one().await.lease.job, id);
    }
}

pub async fn a_queue_can_be_paused_before_its_first_job(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.store.pause(&harness.queue).await.unwrap();
        assert!(harness.counts().await.paused);
        harness.enqueue(job()).await;
        harness.claim_nothing().await;
    }
}

pub async fn a_pause_reaches_only_its_queue(subject: StoreUnderTest) {
    let [harness, other] = subject.harnesses();
    harness.store.pause(&harness.queue).await.unwrap();
    other.enqueue(job()).await;
    other.claim(1).await;
    assert!(!other.counts().await.paused);
}

pub async fn a_waiting_claim_stops_when_its_queue_is_paused(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let waiting = spawn_claim(&harness, Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
        harness.store.pause(&harness.queue).await.unwrap();
        let given = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it stops").unwrap();
        assert_eq!(given, 0);
        harness.enqueue(job()).await;
        harness.claim_nothing().await;
    }
}

fn spawn_claim(harness: &QueueHarness, wait: Duration) -> tokio::task::JoinHandle<usize> {
    let harness = harness.clone();
    tokio::spawn(async move { harness.claim_with(5, 5, wait).await.len() })
}

pub async fn whoever_waits_gets_work_again_after_a_resume(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.store.pause(&harness.queue).await.unwrap();
        harness.enqueue(job()).await;
        let worker = harness.clone();
        let waiting = tokio::spawn(async move {
            until("work", || async { worker.claim_with(5, 5, Duration::from_secs(1)).await.pop() }).await
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        subject.other_connection().await.resume(&harness.queue).await.unwrap();
        waiting.await.unwrap();
    }
}

pub async fn running_jobs_of_a_paused_queue_go_on(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(2).await;
        let claimed = harness.claim(2).await;
        harness.store.pause(&harness.queue).await.unwrap();
        harness.settle(&claimed[0], done()).await;
        harness.settle(&claimed[1], super::harness::retry(Duration::ZERO)).await;
        harness.claim_nothing().await;
        harness.assert_counts([1, 0, 0, 0]).await;
    }
}

pub async fn delayed_jobs_of_a_paused_queue_wait_for_the_resume(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.store.pause(&harness.queue).await.unwrap();
        harness.enqueue(JobSpec { due: Due::In(Duration::from_millis(20)), ..JobSpec::default() }.job()).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            harness.promote().await;
            harness.claim_nothing().await;
        }
        harness.store.resume(&harness.queue).await.unwrap();
        harness.claim_when_due(1).await;
    }
}

pub async fn a_purge_takes_what_waits_and_leaves_the_rest(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let dead = harness.bury(&JobSpec::default(), "bad").await;
        harness.enqueue(job()).await;
        let running = harness.claim_one().await;
        let waiting = job();
        harness.enqueue(waiting.clone()).await;
        harness.enqueue_many(4).await;
        let later = harness.enqueue(JobSpec { due: Due::In(LONG), ..JobSpec::default() }.job()).await;
        assert_eq!(harness.store.purge(&harness.queue).await.unwrap(), 6);
        assert_eq!(harness.store.purge(&harness.queue).await.unwrap(), 0);
        harness.assert_counts([0, 0, 1, 1]).await;
        for gone in [&waiting.id, &later] {
            assert_eq!(harness.state(gone).await, None);
        }
        assert_eq!(harness.state(&dead).await, Some(JobState::Dead));
        harness.settle(&running, done()).await;
        harness.enqueue(waiting).await;
    }
}

pub async fn a_purge_reaches_only_its_queue(subject: StoreUnderTest) {
    let [harness, other] = subject.harnesses();
    harness.enqueue(job()).await;
    other.enqueue(job()).await;
    assert_eq!(harness.store.purge(&harness.queue).await.unwrap(), 1);
    other.assert_counts([1, 0, 0, 0]).await;
}

/// The jobs that are enqueued meanwhile are due before those that the purge has yet to delete.
pub async fn a_purge_leaves_what_is_enqueued_while_it_deletes(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let later = JobSpec { due: Due::In(2 * LONG), ..JobSpec::default() };
        for _ in 0..4 {
            let jobs = (0..500).flat_map(|_| [job(), later.job()]).collect();
            harness.enqueue_batch(jobs).await.unwrap();
        }
        let purge = tokio::spawn({
            let (store, queue) = (harness.store.clone(), harness.queue.clone());
            async move { store.purge(&queue).await.unwrap() }
        });
        until("the purge to begin", || async {
            let counts = harness.counts().await;
            (counts.ready < 2_000 || counts.scheduled < 2_000 || purge.is_finished()).then_some(())
        })
        .await;
        let ready = harness.enqueue(job()).await;
        let scheduled = harness.enqueue(JobSpec { due: Due::In(LONG), ..JobSpec::default() }.job()).await;
        assert_eq!(purge.await.unwrap(), 4_000);
        harness.assert_counts([1, 1, 0, 0]).await;
        assert_eq!(harness.state(&ready).await, Some(JobState::Ready));
        assert_eq!(harness.state(&scheduled).await, Some(JobState::Scheduled));
    }
}

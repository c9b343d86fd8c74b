//! Concurrent calls from several connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, Due, Enqueued, Verdict};

use super::cleanup::assert_nothing_is_left;
use super::harness::{SHORT, JobSpec, done, envelope, job, retry, until};
use super::{QueueHarness, StoreUnderTest};

pub async fn one_id_enqueued_by_many_is_one_job(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        let everywhere = [harness.clone(), harness.with_store(subject.other_connection().await)];
        let tasks = (0..10).map(|index| {
            let (harness, job) = (everywhere[index % 2].clone(), job.clone());
            tokio::spawn(async move { harness.enqueue_again(job).await })
        });
        let answers = join_all(tasks.collect::<Vec<_>>()).await;
        let created = answers.into_iter().filter(|answer| *answer.as_ref().unwrap() == Enqueued::Created);
        assert_eq!(created.count(), 1);
        harness.claim(1).await;
        harness.claim_nothing().await;
    }
}

pub async fn one_lease_settled_by_many_is_settled_once(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for _ in 0..5 {
            harness.enqueue(job()).await;
            let claimed = harness.claim_one().await;
            let tasks = (0..6).map(|_| {
                let (harness, claimed) = (harness.clone(), claimed.clone());
                tokio::spawn(async move { harness.try_settle(&claimed, done()).await })
            });
            let verdicts = join_all(tasks.collect::<Vec<_>>()).await;
            let accepted = verdicts.into_iter().filter(|verdict| *verdict.as_ref().unwrap() == Verdict::Accepted);
            assert_eq!(accepted.count(), 1);
        }
    }
}

pub async fn delayed_jobs_promoted_by_many_are_moved_once(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let soon = JobSpec { due: Due::In(Duration::from_millis(50)), ..JobSpec::default() };
        harness.enqueue_batch((0..60).map(|_| soon.job()).collect()).await.unwrap();
        let other = harness.with_store(subject.other_connection().await);
        let tasks = [&harness, &other, &harness].map(|harness| tokio::spawn(promote_all(harness.clone(), 60)));
        let moved: u64 = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
        // A store that only compares due times has nothing to move.
        assert!(moved == 60 || moved == 0, "{moved} were moved");
        harness.assert_counts([60, 0, 0, 0]).await;
    }
}

/// Promotes until `count` jobs are ready.
async fn promote_all(harness: QueueHarness, count: u64) -> u64 {
    let moved = AtomicU64::new(0);
    until("all to be ready", || async {
        moved.fetch_add(harness.promote().await.moved, Ordering::Relaxed);
        (harness.counts().await.ready == count).then_some(())
    })
    .await;
    moved.into_inner()
}

pub async fn leases_rescued_by_many_are_rescued_once(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue_many(60).await;
    harness.claim(60).await;
    harness.expire(60).await;
    let everywhere = [harness.clone(), harness.with_store(subject.other_connection().await), harness.clone()];
    let tasks = everywhere.map(|harness| tokio::spawn(async move { harness.rescue().await }));
    let rescued: u64 = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(rescued, 60);
    harness.assert_counts([60, 0, 0, 0]).await;
}

pub async fn a_job_is_either_cancelled_or_claimed(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let ids = harness.enqueue_many(40).await;
        let claiming = {
            let harness = harness.clone();
            tokio::spawn(async move { claim_until_empty(&harness).await })
        };
        let mut removed = 0;
        for id in &ids {
            removed += usize::from(harness.store.cancel(id).await.unwrap() == Cancelled::Removed);
        }
        let claimed = claiming.await.unwrap() + claim_until_empty(&harness).await;
        assert_eq!(removed + claimed, 40);
        harness.assert_counts([0, 0, claimed as u64, 0]).await;
    }
}

async fn claim_until_empty(harness: &QueueHarness) -> usize {
    let mut taken = 0;
    loop {
        let given = harness.try_claim(3).await;
        if given.is_empty() {
            return taken;
        }
        taken += given.len();
    }
}

/// How often each job was settled with success.
type SettleCounts = Arc<Mutex<HashMap<JobId, usize>>>;

pub async fn many_clients_and_workers_settle_each_job_once(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let counts = SettleCounts::default();
        let other = harness.with_store(subject.other_connection().await);
        let clients = (0..4).map(|_| tokio::spawn(enqueue_slowly(harness.clone(), 50)));
        let workers = (0..4).map(|index| {
            let store = if index % 2 == 0 { &harness.store } else { &other.store };
            tokio::spawn(run_worker(harness.with_store(store.clone()), counts.clone(), 200))
        });
        let tasks: Vec<_> = clients.chain(workers).collect();
        join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
        assert!(counts.lock().unwrap().values().all(|&times| times == 1));
        assert_nothing_is_left(&subject, &harness).await;
    }
}

async fn enqueue_slowly(harness: QueueHarness, count: usize) {
    for _ in 0..count / 5 {
        harness.enqueue_many(5).await;
    }
}

/// Claims and settles until all workers together have finished `goal` jobs. Every third first
/// attempt fails.
async fn run_worker(harness: QueueHarness, counts: SettleCounts, goal: usize) {
    until("all jobs to be done", || async {
        for claimed in harness.claim_with(8, 8, Duration::from_millis(20)).await {
            let fails = envelope(&claimed).attempts() == 0 && fastrand::u8(..3) == 0;
            let outcome = if fails { retry(Duration::ZERO) } else { done() };
            if harness.try_settle(&claimed, outcome).await == Verdict::Accepted && !fails {
                *counts.lock().unwrap().entry(claimed.lease.job).or_default() += 1;
            }
        }
        (counts.lock().unwrap().len() >= goal).then_some(())
    })
    .await;
    harness.store.leave(&harness.worker, std::slice::from_ref(&harness.queue)).await.unwrap();
}

pub async fn maintenance_everywhere_loses_and_doubles_nothing(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let patient = JobSpec { max_attempts: 1000, due: Due::In(Duration::from_millis(20)), ..JobSpec::default() };
    harness.enqueue_batch((0..60).map(|_| patient.job()).collect()).await.unwrap();
    let counts = SettleCounts::default();
    let other = harness.with_store(subject.other_connection().await);
    let tasks = [&harness, &other, &harness, &other].map(|harness| {
        tokio::spawn(run_forgetful_worker(harness.with_store(harness.store.clone()), counts.clone(), 60))
    });
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
    assert!(counts.lock().unwrap().values().all(|&times| times == 1));
    assert_nothing_is_left(&subject, &harness).await;
}

/// Runs maintenance and jobs, and forgets some of the claimed jobs.
async fn run_forgetful_worker(harness: QueueHarness, counts: SettleCounts, goal: usize) {
    until("all jobs to be done", || async {
        harness.promote().await;
        harness.rescue().await;
        harness.store.prune(std::slice::from_ref(&harness.queue)).await.unwrap();
        for claimed in harness.claim_with(4, 4, Duration::from_millis(5)).await {
            let forgets = fastrand::u8(..4) == 0;
            if !forgets && harness.try_settle(&claimed, done()).await == Verdict::Accepted {
                *counts.lock().unwrap().entry(claimed.lease.job).or_default() += 1;
            }
        }
        (counts.lock().unwrap().len() >= goal).then_some(())
    })
    .await;
    harness.store.leave(&harness.worker, std::slice::from_ref(&harness.queue)).await.unwrap();
}

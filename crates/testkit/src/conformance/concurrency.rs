//! Everything at once, everywhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, Due, Enqueued, NewJob, Verdict};

use super::hygiene::assert_nothing_is_left;
use super::scene::{SHORT, Traits, done, envelope, job, retry, until};
use super::{Scene, Subject};

pub async fn one_id_enqueued_by_many_is_one_job(subject: Subject) {
    for scene in subject.scenes() {
        let job = NewJob { fresh: false, ..job() };
        let everywhere = [scene.clone(), scene.through(subject.other().await)];
        let tasks = (0..10).map(|index| {
            let (scene, job) = (everywhere[index % 2].clone(), job.clone());
            tokio::spawn(async move { scene.enqueue_again(job).await })
        });
        let answers = join_all(tasks.collect::<Vec<_>>()).await;
        let created = answers.into_iter().filter(|answer| *answer.as_ref().unwrap() == Enqueued::Created);
        assert_eq!(created.count(), 1);
        scene.claim(1).await;
        scene.claim_nothing().await;
    }
}

pub async fn one_lease_settled_by_many_is_settled_once(subject: Subject) {
    for scene in subject.scenes() {
        for _ in 0..5 {
            scene.enqueue(job()).await;
            let claimed = scene.claim_one().await;
            let tasks = (0..6).map(|_| {
                let (scene, claimed) = (scene.clone(), claimed.clone());
                tokio::spawn(async move { scene.try_settle(&claimed, done()).await })
            });
            let verdicts = join_all(tasks.collect::<Vec<_>>()).await;
            let accepted = verdicts.into_iter().filter(|verdict| *verdict.as_ref().unwrap() == Verdict::Accepted);
            assert_eq!(accepted.count(), 1);
        }
    }
}

pub async fn delayed_jobs_promoted_by_many_are_moved_once(subject: Subject) {
    for scene in subject.scenes() {
        let soon = Traits { due: Due::In(Duration::from_millis(50)), ..Traits::default() };
        scene.store.enqueue(&scene.queue, (0..60).map(|_| soon.job()).collect()).await.unwrap();
        let other = scene.through(subject.other().await);
        let tasks = [&scene, &other, &scene].map(|scene| tokio::spawn(promote_all(scene.clone(), 60)));
        let moved: u64 = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
        // A store that goes by the due time alone has nothing to move.
        assert!(moved == 60 || moved == 0, "{moved} were moved");
        scene.assert_counts([60, 0, 0, 0]).await;
    }
}

/// Promotes until `count` jobs are ready.
async fn promote_all(scene: Scene, count: u64) -> u64 {
    let moved = AtomicU64::new(0);
    until("all to be ready", || async {
        moved.fetch_add(scene.promote().await.moved, Ordering::Relaxed);
        (scene.counts().await.ready == count).then_some(())
    })
    .await;
    moved.into_inner()
}

pub async fn leases_rescued_by_many_are_rescued_once(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue_many(60).await;
    scene.claim(60).await;
    scene.expire(60).await;
    let everywhere = [scene.clone(), scene.through(subject.other().await), scene.clone()];
    let tasks = everywhere.map(|scene| tokio::spawn(async move { scene.rescue().await }));
    let rescued: u64 = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(rescued, 60);
    scene.assert_counts([60, 0, 0, 0]).await;
}

pub async fn a_job_is_either_cancelled_or_claimed(subject: Subject) {
    for scene in subject.scenes() {
        let ids = scene.enqueue_many(40).await;
        let claiming = {
            let scene = scene.clone();
            tokio::spawn(async move { take_until_empty(&scene).await })
        };
        let mut removed = 0;
        for id in &ids {
            removed += usize::from(scene.store.cancel(id).await.unwrap() == Cancelled::Removed);
        }
        let claimed = claiming.await.unwrap() + take_until_empty(&scene).await;
        assert_eq!(removed + claimed, 40);
        scene.assert_counts([0, 0, claimed as u64, 0]).await;
    }
}

async fn take_until_empty(scene: &Scene) -> usize {
    let mut taken = 0;
    loop {
        let given = scene.try_claim(3).await;
        if given.is_empty() {
            return taken;
        }
        taken += given.len();
    }
}

/// How often each job was settled for good.
type Tally = Arc<Mutex<HashMap<JobId, usize>>>;

pub async fn many_clients_and_workers_settle_each_job_once(subject: Subject) {
    for scene in subject.scenes() {
        let tally = Tally::default();
        let other = scene.through(subject.other().await);
        let clients = (0..4).map(|_| tokio::spawn(enqueue_slowly(scene.clone(), 50)));
        let workers = (0..4).map(|index| {
            let store = if index % 2 == 0 { &scene.store } else { &other.store };
            tokio::spawn(work(scene.through(store.clone()), tally.clone(), 200))
        });
        let tasks: Vec<_> = clients.chain(workers).collect();
        join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
        assert!(tally.lock().unwrap().values().all(|&times| times == 1));
        assert_nothing_is_left(&subject, &scene).await;
    }
}

async fn enqueue_slowly(scene: Scene, count: usize) {
    for _ in 0..count / 5 {
        scene.enqueue_many(5).await;
    }
}

/// Claims and settles until `goal` jobs are done by all workers together. Every third attempt fails first.
async fn work(scene: Scene, tally: Tally, goal: usize) {
    until("all jobs to be done", || async {
        for claimed in scene.claim_with(8, 8, Duration::from_millis(20)).await {
            let fails = envelope(&claimed).attempts() == 0 && fastrand::u8(..3) == 0;
            let outcome = if fails { retry(Duration::ZERO) } else { done() };
            if scene.try_settle(&claimed, outcome).await == Verdict::Accepted && !fails {
                *tally.lock().unwrap().entry(claimed.lease.job).or_default() += 1;
            }
        }
        (tally.lock().unwrap().len() >= goal).then_some(())
    })
    .await;
    scene.store.leave(&scene.worker, std::slice::from_ref(&scene.queue)).await.unwrap();
}

pub async fn maintenance_everywhere_loses_and_doubles_nothing(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let patient = Traits { max_attempts: 1000, due: Due::In(Duration::from_millis(20)), ..Traits::default() };
    scene.store.enqueue(&scene.queue, (0..60).map(|_| patient.job()).collect()).await.unwrap();
    let tally = Tally::default();
    let other = scene.through(subject.other().await);
    let tasks = [&scene, &other, &scene, &other].map(|scene| {
        tokio::spawn(work_carelessly(scene.through(scene.store.clone()), tally.clone(), 60))
    });
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
    assert!(tally.lock().unwrap().values().all(|&times| times == 1));
    assert_nothing_is_left(&subject, &scene).await;
}

/// Tends the queue and works on it, and now and then forgets what it has claimed.
async fn work_carelessly(scene: Scene, tally: Tally, goal: usize) {
    until("all jobs to be done", || async {
        scene.promote().await;
        scene.rescue().await;
        scene.store.prune(std::slice::from_ref(&scene.queue)).await.unwrap();
        for claimed in scene.claim_with(4, 4, Duration::from_millis(5)).await {
            let forgets = fastrand::u8(..4) == 0;
            if !forgets && scene.try_settle(&claimed, done()).await == Verdict::Accepted {
                *tally.lock().unwrap().entry(claimed.lease.job).or_default() += 1;
            }
        }
        (tally.lock().unwrap().len() >= goal).then_some(())
    })
    .await;
    scene.store.leave(&scene.worker, std::slice::from_ref(&scene.queue)).await.unwrap();
}

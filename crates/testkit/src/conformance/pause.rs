//! Holding a queue back, and emptying it.

use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::store::{Due};

use super::scene::{LONG, Traits, done, job, until};
use super::{Scene, Subject};

pub async fn a_paused_queue_gives_nothing_to_anyone(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue(job()).await;
        let elsewhere = scene.through(subject.other().await);
        for _ in 0..2 {
            elsewhere.store.pause(&scene.queue).await.unwrap();
        }
        scene.enqueue(job()).await;
        for scene in [&scene, &elsewhere] {
            assert!(scene.claim_with(5, 5, Duration::from_millis(100)).await.is_empty());
            assert!(scene.counts().await.paused);
        }
        scene.assert_counts([2, 0, 0, 0]).await;
    }
}

pub async fn a_resumed_queue_gives_what_came_meanwhile(subject: Subject) {
    for scene in subject.scenes() {
        scene.store.pause(&scene.queue).await.unwrap();
        let id = scene.enqueue(job()).await;
        scene.claim_nothing().await;
        for _ in 0..2 {
            subject.other().await.resume(&scene.queue).await.unwrap();
        }
        assert!(!scene.counts().await.paused);
        assert_eq!(scene.claim_one().await.lease.job, id);
    }
}

pub async fn a_queue_can_be_paused_before_its_first_job(subject: Subject) {
    for scene in subject.scenes() {
        scene.store.pause(&scene.queue).await.unwrap();
        assert!(scene.counts().await.paused);
        scene.enqueue(job()).await;
        scene.claim_nothing().await;
    }
}

pub async fn a_pause_reaches_only_its_queue(subject: Subject) {
    let [scene, other] = subject.scenes();
    scene.store.pause(&scene.queue).await.unwrap();
    other.enqueue(job()).await;
    other.claim(1).await;
    assert!(!other.counts().await.paused);
}

pub async fn a_waiting_claim_stops_when_its_queue_is_paused(subject: Subject) {
    for scene in subject.scenes() {
        let waiting = spawn_claim(&scene, Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
        scene.store.pause(&scene.queue).await.unwrap();
        let given = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it stops").unwrap();
        assert_eq!(given, 0);
        scene.enqueue(job()).await;
        scene.claim_nothing().await;
    }
}

fn spawn_claim(scene: &Scene, wait: Duration) -> tokio::task::JoinHandle<usize> {
    let scene = scene.clone();
    tokio::spawn(async move { scene.claim_with(5, 5, wait).await.len() })
}

pub async fn whoever_waits_gets_work_again_after_a_resume(subject: Subject) {
    for scene in subject.scenes() {
        scene.store.pause(&scene.queue).await.unwrap();
        scene.enqueue(job()).await;
        let worker = scene.clone();
        let waiting = tokio::spawn(async move {
            until("work", || async { worker.claim_with(5, 5, Duration::from_secs(1)).await.pop() }).await
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        subject.other().await.resume(&scene.queue).await.unwrap();
        waiting.await.unwrap();
    }
}

pub async fn running_jobs_of_a_paused_queue_go_on(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(2).await;
        let claimed = scene.claim(2).await;
        scene.store.pause(&scene.queue).await.unwrap();
        scene.settle(&claimed[0], done()).await;
        scene.settle(&claimed[1], super::scene::retry(Duration::ZERO)).await;
        scene.claim_nothing().await;
        scene.assert_counts([1, 0, 0, 0]).await;
    }
}

pub async fn delayed_jobs_of_a_paused_queue_wait_for_the_resume(subject: Subject) {
    for scene in subject.scenes() {
        scene.store.pause(&scene.queue).await.unwrap();
        scene.enqueue(Traits { due: Due::In(Duration::from_millis(20)), ..Traits::default() }.job()).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            scene.promote().await;
            scene.claim_nothing().await;
        }
        scene.store.resume(&scene.queue).await.unwrap();
        scene.claim_when_due(1).await;
    }
}

pub async fn a_purge_takes_what_waits_and_leaves_the_rest(subject: Subject) {
    for scene in subject.scenes() {
        let dead = scene.bury(&Traits::default(), "bad").await;
        scene.enqueue(job()).await;
        let running = scene.claim_one().await;
        let waiting = job();
        scene.enqueue(waiting.clone()).await;
        scene.enqueue_many(4).await;
        let later = scene.enqueue(Traits { due: Due::In(LONG), ..Traits::default() }.job()).await;
        assert_eq!(scene.store.purge(&scene.queue).await.unwrap(), 6);
        assert_eq!(scene.store.purge(&scene.queue).await.unwrap(), 0);
        scene.assert_counts([0, 0, 1, 1]).await;
        for gone in [&waiting.id, &later] {
            assert_eq!(scene.state(gone).await, None);
        }
        assert_eq!(scene.state(&dead).await, Some(JobState::Dead));
        scene.settle(&running, done()).await;
        scene.enqueue(waiting).await;
    }
}

pub async fn a_purge_reaches_only_its_queue(subject: Subject) {
    let [scene, other] = subject.scenes();
    scene.enqueue(job()).await;
    other.enqueue(job()).await;
    assert_eq!(scene.store.purge(&scene.queue).await.unwrap(), 1);
    other.assert_counts([1, 0, 0, 0]).await;
}

/// The jobs that are enqueued meanwhile are due before those that the purge has yet to delete.
pub async fn a_purge_leaves_what_is_enqueued_while_it_deletes(subject: Subject) {
    for scene in subject.scenes() {
        let later = Traits { due: Due::In(2 * LONG), ..Traits::default() };
        for _ in 0..4 {
            let jobs = (0..500).flat_map(|_| [job(), later.job()]).collect();
            scene.enqueue_batch(jobs).await.unwrap();
        }
        let purge = tokio::spawn({
            let (store, queue) = (scene.store.clone(), scene.queue.clone());
            async move { store.purge(&queue).await.unwrap() }
        });
        until("the purge to begin", || async {
            let counts = scene.counts().await;
            (counts.ready < 2_000 || counts.scheduled < 2_000 || purge.is_finished()).then_some(())
        })
        .await;
        let ready = scene.enqueue(job()).await;
        let scheduled = scene.enqueue(Traits { due: Due::In(LONG), ..Traits::default() }.job()).await;
        assert_eq!(purge.await.unwrap(), 4_000);
        scene.assert_counts([1, 1, 0, 0]).await;
        assert_eq!(scene.state(&ready).await, Some(JobState::Ready));
        assert_eq!(scene.state(&scheduled).await, Some(JobState::Scheduled));
    }
}

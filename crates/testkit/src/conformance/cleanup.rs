//! After everything is drained, nothing is left behind.

use std::slice::from_ref;
use std::time::Duration;

use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead};
use tidemill_core::settle::Outcome;
use tidemill_core::store::Due;

use super::scene::{LONG, SHORT, Traits, dead, done, job, retry, until};
use super::{Scene, Subject};

/// Asserts that a drained queue is empty to the last trace, once its worker has left.
pub async fn assert_nothing_is_left(subject: &Subject, scene: &Scene) {
    scene.store.leave(&scene.worker, from_ref(&scene.queue)).await.unwrap();
    scene.assert_counts([0, 0, 0, 0]).await;
    let mut left = Vec::new();
    for _ in 0..100 {
        scene.store.prune(from_ref(&scene.queue)).await.unwrap();
        left = subject.left_behind().await;
        if left.is_empty() {
            return;
        }
        // What expires by itself may take a moment.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("left behind: {left:?}");
}

pub async fn a_finished_job_leaves_nothing(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(20).await;
        for claimed in scene.claim(20).await {
            scene.settle(&claimed, done()).await;
        }
        assert_nothing_is_left(&subject, &scene).await;
    }
}

pub async fn every_way_to_end_leaves_nothing(subject: Subject) {
    for scene in subject.scenes() {
        let outcomes = [done(), retry(Duration::ZERO), Outcome::Discard(String::new()), Outcome::Cancelled, dead("bad")];
        for outcome in outcomes {
            let id = scene.enqueue(Traits { max_attempts: 1, ..Traits::default() }.job()).await;
            let claimed = scene.claim_one().await;
            scene.store.cancel(&id).await.unwrap();
            scene.extend(from_ref(&claimed.lease)).await;
            scene.settle(&claimed, outcome).await;
        }
        drop_dead(&*scene.store, &scene.queue, &DeadLetterFilter::default()).await.unwrap();
        assert_nothing_is_left(&subject, &scene).await;
    }
}

pub async fn cancelled_and_purged_jobs_leave_nothing(subject: Subject) {
    for scene in subject.scenes() {
        let later = Traits { due: Due::In(LONG), ..Traits::default() };
        for traits in [Traits::default(), later] {
            let cancelled = scene.enqueue(traits.job()).await;
            scene.enqueue(traits.job()).await;
            scene.store.cancel(&cancelled).await.unwrap();
        }
        scene.store.purge(&scene.queue).await.unwrap();
        assert_nothing_is_left(&subject, &scene).await;
    }
}

pub async fn expired_records_leave_nothing(subject: Subject) {
    for scene in subject.scenes() {
        for _ in 0..5 {
            scene.enqueue(Traits { keep: Some(Duration::from_millis(50)), ..Traits::default() }.job()).await;
            scene.settle(&scene.claim_one().await, done()).await;
        }
        assert_nothing_is_left(&subject, &scene).await;
    }
}

pub async fn rescued_and_redriven_jobs_leave_nothing(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue(Traits { max_attempts: 1, ..Traits::default() }.job()).await;
    scene.claim(1).await;
    scene.expire_and_rescue(1).await;
    tidemill_core::dead_letter::redrive::redrive(&*scene.store, &scene.queue, &DeadLetterFilter::default()).await.unwrap();
    scene.settle(&scene.claim_one().await, done()).await;
    assert_nothing_is_left(&subject, &scene).await;
}

pub async fn abandoned_at_most_once_jobs_leave_nothing(subject: Subject) {
    let scene = subject.scene_at_most_once().leasing(SHORT);
    scene.enqueue_many(5).await;
    scene.claim(5).await;
    until("the leases to run out", || async {
        scene.rescue().await;
        scene.store.prune(from_ref(&scene.queue)).await.unwrap();
        (scene.counts().await.running == 0).then_some(())
    })
    .await;
    assert_nothing_is_left(&subject, &scene).await;
}

pub async fn a_paused_and_resumed_queue_leaves_nothing(subject: Subject) {
    for scene in subject.scenes() {
        scene.store.pause(&scene.queue).await.unwrap();
        scene.enqueue(job()).await;
        scene.store.resume(&scene.queue).await.unwrap();
        scene.settle(&scene.claim_one().await, done()).await;
        assert_nothing_is_left(&subject, &scene).await;
    }
}

pub async fn looking_leaves_nothing(subject: Subject) {
    for scene in subject.scenes() {
        scene.claim_nothing().await;
        scene.claim_with(1, 1, Duration::from_millis(20)).await;
        scene.promote().await;
        scene.rescue().await;
        scene.store.list_queues().await.unwrap();
        scene.get(&job().id).await;
        assert_nothing_is_left(&subject, &scene).await;
    }
}

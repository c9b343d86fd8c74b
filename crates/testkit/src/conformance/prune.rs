//! Removing what has outlived its purpose.

use std::slice::from_ref;
use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::name::HolderId;
use tidemill_core::store::{Due, Enqueued};

use super::Subject;
use super::scene::{LONG, Traits, done, job, until};

pub async fn a_record_is_kept_as_long_as_it_says(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await;
        scene.settle(&scene.claim_one().await, done()).await;
        for _ in 0..3 {
            assert_eq!(scene.store.prune(from_ref(&scene.queue)).await.unwrap().records, 0);
        }
        assert_eq!(scene.state(&id).await, Some(JobState::Done));
    }
}

pub async fn an_expired_record_is_removed_and_its_id_is_free(subject: Subject) {
    for scene in subject.scenes() {
        let job = Traits { keep: Some(Duration::from_millis(100)), ..Traits::default() }.job();
        scene.enqueue(job.clone()).await;
        scene.settle(&scene.claim_one().await, done()).await;
        until("the record to go", || async {
            scene.store.prune(from_ref(&scene.queue)).await.unwrap();
            scene.get(&job.id).await.is_none().then_some(())
        })
        .await;
        let again = job;
        assert_eq!(scene.enqueue_again(again).await, Enqueued::Created);
    }
}

pub async fn nothing_that_lives_is_pruned(subject: Subject) {
    for scene in subject.scenes() {
        scene.bury(&Traits::default(), "bad").await;
        scene.enqueue_many(2).await;
        let running = scene.claim_one().await;
        scene.enqueue(Traits { due: Due::In(LONG), ..Traits::default() }.job()).await;
        for _ in 0..3 {
            scene.store.prune(from_ref(&scene.queue)).await.unwrap();
        }
        scene.assert_counts([1, 1, 1, 1]).await;
        scene.settle(&running, done()).await;
        scene.claim(1).await;
    }
}

pub async fn a_worker_that_leaves_disturbs_no_other(subject: Subject) {
    for scene in subject.scenes() {
        let other = scene.through(subject.other().await);
        scene.enqueue_many(3).await;
        let (mine, theirs) = (scene.claim_one().await, other.claim_one().await);
        scene.settle(&mine, done()).await;
        for _ in 0..2 {
            scene.store.leave(&scene.worker, from_ref(&scene.queue)).await.unwrap();
        }
        other.settle(&theirs, done()).await;
        // It may come back.
        scene.settle(&scene.claim_one().await, done()).await;
    }
}

pub async fn a_worker_nobody_knows_may_leave(subject: Subject) {
    for scene in subject.scenes() {
        let stranger = HolderId::from_process("stranger", 7, 7);
        scene.store.leave(&stranger, from_ref(&scene.queue)).await.unwrap();
        scene.enqueue(job()).await;
        scene.store.leave(&stranger, from_ref(&scene.queue)).await.unwrap();
        scene.claim(1).await;
    }
}

//! Not wanting a job any more.

use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Cancelled, Due, Extended};

use super::Subject;
use super::scene::{LONG, SHORT, Traits, done, job};

pub async fn a_waiting_job_is_removed(subject: Subject) {
    for scene in subject.scenes() {
        let ids = scene.enqueue_many(3).await;
        assert_eq!(scene.store.cancel(&ids[1]).await.unwrap(), Cancelled::Removed);
        assert_eq!(scene.state(&ids[1]).await, None);
        scene.assert_counts([2, 0, 0, 0]).await;
        let given: Vec<_> = scene.claim(2).await.into_iter().map(|claimed| claimed.lease.job).collect();
        assert!(!given.contains(&ids[1]));
    }
}

pub async fn a_scheduled_job_is_removed(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(Traits { due: Due::In(LONG), ..Traits::default() }.job()).await;
        assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Removed);
        assert_eq!(scene.state(&id).await, None);
        scene.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_removed_job_can_be_enqueued_again(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        scene.store.cancel(&job.id).await.unwrap();
        scene.enqueue(job.clone()).await;
        assert_eq!(scene.claim_one().await.lease.job, job.id);
    }
}

pub async fn a_running_job_is_told(subject: Subject) {
    for scene in subject.scenes() {
        let ids = scene.enqueue_many(2).await;
        let leases: Vec<_> = scene.claim(2).await.into_iter().map(|claimed| claimed.lease).collect();
        let other = subject.other().await;
        for _ in 0..2 {
            assert_eq!(other.cancel(&ids[0]).await.unwrap(), Cancelled::Requested);
        }
        let told = scene.extend(&leases).await;
        let expected: Vec<_> =
            leases.iter().map(|lease| if lease.job == ids[0] { Extended::Cancelling } else { Extended::Yes }).collect();
        assert_eq!(told, expected);
        assert_eq!(scene.get(&ids[0]).await.map(|info| (info.state, info.cancelling)), Some((JobState::Running, true)));
        assert_eq!(scene.get(&ids[1]).await.map(|info| info.cancelling), Some(false));
    }
}

pub async fn a_running_job_that_is_not_in_the_index_is_told(subject: Subject) {
    for scene in subject.scenes() {
        for outcome in [done(), Outcome::Cancelled, Outcome::HandedBack, super::scene::dead("bad")] {
            let job = Traits::default().untracked();
            scene.enqueue(job.clone()).await;
            let claimed = scene.claim_one().await;
            assert_eq!(scene.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
            for _ in 0..2 {
                assert_eq!(scene.store.cancel(&job.id).await.unwrap(), Cancelled::Requested);
            }
            assert_eq!(scene.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Cancelling]);
            let info = scene.get(&job.id).await.unwrap();
            assert_eq!((info.state, info.cancelling), (JobState::Running, true));
            scene.settle(&claimed, outcome).await;
            assert_ne!(scene.store.cancel(&job.id).await.unwrap(), Cancelled::Requested);
        }
        // The last has died; none is back.
        scene.assert_counts([0, 0, 0, 1]).await;
    }
}

pub async fn a_running_job_that_is_cancelled_can_still_end_in_every_way(subject: Subject) {
    for scene in subject.scenes() {
        for outcome in [done(), Outcome::Cancelled, super::scene::dead("bad")] {
            let id = scene.enqueue(job()).await;
            let claimed = scene.claim_one().await;
            scene.store.cancel(&id).await.unwrap();
            scene.settle(&claimed, outcome).await;
        }
        scene.assert_counts([0, 0, 0, 1]).await;
    }
}

pub async fn a_request_ends_with_the_job_it_was_for(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        let claimed = scene.claim_one().await;
        scene.store.cancel(&job.id).await.unwrap();
        scene.settle(&claimed, Outcome::Cancelled).await;
        scene.enqueue(job).await;
        let again = scene.claim_one().await;
        assert_eq!(scene.extend(&[again.lease]).await, [Extended::Yes]);
    }
}

pub async fn a_job_that_has_ended_says_how(subject: Subject) {
    for scene in subject.scenes() {
        let kept = Traits { keep: Some(LONG), ..Traits::default() };
        let ends = [(done(), JobState::Done), (Outcome::Cancelled, JobState::Cancelled)];
        for (outcome, state) in ends {
            let id = scene.enqueue(kept.job()).await;
            scene.settle(&scene.claim_one().await, outcome).await;
            assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Ended(state));
        }
        let id = scene.bury(&kept, "bad").await;
        assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Ended(JobState::Dead));
        assert_eq!(scene.state(&id).await, Some(JobState::Dead));
    }
}

pub async fn a_job_that_is_not_there_is_not_found(subject: Subject) {
    let scene = subject.scene();
    assert_eq!(scene.store.cancel(&JobId::generate()).await.unwrap(), Cancelled::NotFound);
    let id = scene.enqueue(job()).await;
    scene.settle(&scene.claim_one().await, done()).await;
    assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::NotFound);
}

pub async fn a_job_that_was_rescued_is_removed(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    scene.claim(1).await;
    scene.expire_and_rescue(1).await;
    assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Removed);
    scene.claim_nothing().await;
}

//! Cancellation of jobs.

use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Cancelled, Due, Extended};

use super::StoreUnderTest;
use super::harness::{LONG, SHORT, JobSpec, done, job};

pub async fn a_waiting_job_is_removed(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let ids = harness.enqueue_many(3).await;
        assert_eq!(harness.store.cancel(&ids[1]).await.unwrap(), Cancelled::Removed);
        assert_eq!(harness.state(&ids[1]).await, None);
        harness.assert_counts([2, 0, 0, 0]).await;
        let given: Vec<_> = harness.claim(2).await.into_iter().map(|claimed| claimed.lease.job).collect();
        assert!(!given.contains(&ids[1]));
    }
}

pub async fn a_scheduled_job_is_removed(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(JobSpec { due: Due::In(LONG), ..JobSpec::default() }.job()).await;
        assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Removed);
        assert_eq!(harness.state(&id).await, None);
        harness.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_removed_job_can_be_enqueued_again(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        harness.store.cancel(&job.id).await.unwrap();
        harness.enqueue(job.clone()).await;
        assert_eq!(harness.claim_one().await.lease.job, job.id);
    }
}

pub async fn a_running_job_is_told(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let ids = harness.enqueue_many(2).await;
        let leases: Vec<_> = harness.claim(2).await.into_iter().map(|claimed| claimed.lease).collect();
        let other = subject.other_connection().await;
        for _ in 0..2 {
            assert_eq!(other.cancel(&ids[0]).await.unwrap(), Cancelled::Requested);
        }
        let told = harness.extend(&leases).await;
        let expected: Vec<_> =
            leases.iter().map(|lease| if lease.job == ids[0] { Extended::Cancelling } else { Extended::Yes }).collect();
        assert_eq!(told, expected);
        assert_eq!(harness.get(&ids[0]).await.map(|info| (info.state, info.cancelling)), Some((JobState::Running, true)));
        assert_eq!(harness.get(&ids[1]).await.map(|info| info.cancelling), Some(false));
    }
}

pub async fn a_running_job_that_is_not_in_the_index_is_told(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for outcome in [done(), Outcome::Cancelled, Outcome::HandedBack, super::harness::dead("bad")] {
            let job = JobSpec::default().untracked();
            harness.enqueue(job.clone()).await;
            let claimed = harness.claim_one().await;
            assert_eq!(harness.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
            for _ in 0..2 {
                assert_eq!(harness.store.cancel(&job.id).await.unwrap(), Cancelled::Requested);
            }
            assert_eq!(harness.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Cancelling]);
            let info = harness.get(&job.id).await.unwrap();
            assert_eq!((info.state, info.cancelling), (JobState::Running, true));
            harness.settle(&claimed, outcome).await;
            assert_ne!(harness.store.cancel(&job.id).await.unwrap(), Cancelled::Requested);
        }
        // The last one is dead; none is back.
        harness.assert_counts([0, 0, 0, 1]).await;
    }
}

pub async fn a_running_job_that_is_cancelled_can_still_end_in_every_way(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for outcome in [done(), Outcome::Cancelled, super::harness::dead("bad")] {
            let id = harness.enqueue(job()).await;
            let claimed = harness.claim_one().await;
            harness.store.cancel(&id).await.unwrap();
            harness.settle(&claimed, outcome).await;
        }
        harness.assert_counts([0, 0, 0, 1]).await;
    }
}

pub async fn a_request_ends_with_the_job_it_was_for(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        let claimed = harness.claim_one().await;
        harness.store.cancel(&job.id).await.unwrap();
        harness.settle(&claimed, Outcome::Cancelled).await;
        harness.enqueue(job).await;
        let again = harness.claim_one().await;
        assert_eq!(harness.extend(&[again.lease]).await, [Extended::Yes]);
    }
}

pub async fn a_job_that_has_ended_says_how(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let kept = JobSpec { keep: Some(LONG), ..JobSpec::default() };
        let ends = [(done(), JobState::Done), (Outcome::Cancelled, JobState::Cancelled)];
        for (outcome, state) in ends {
            let id = harness.enqueue(kept.job()).await;
            harness.settle(&harness.claim_one().await, outcome).await;
            assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Ended(state));
        }
        let id = harness.bury(&kept, "bad").await;
        assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Ended(JobState::Dead));
        assert_eq!(harness.state(&id).await, Some(JobState::Dead));
    }
}

pub async fn a_job_that_is_not_there_is_not_found(subject: StoreUnderTest) {
    let harness = subject.harness();
    assert_eq!(harness.store.cancel(&JobId::generate()).await.unwrap(), Cancelled::NotFound);
    let id = harness.enqueue(job()).await;
    harness.settle(&harness.claim_one().await, done()).await;
    assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::NotFound);
}

pub async fn a_job_that_was_rescued_is_removed(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    harness.claim(1).await;
    harness.expire_and_rescue(1).await;
    assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Removed);
    harness.claim_nothing().await;
}

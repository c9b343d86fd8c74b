//! Jobs that are completed from outside.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Completed, Due, Extended, Verdict};
use tidemill_core::wake::Wake;

use super::StoreUnderTest;
use super::cleanup::assert_nothing_is_left;
use super::harness::{LONG, JobSpec, chain, chain_after, dead, done, continue_with, next, output, retry, until};

pub async fn a_waiting_job_is_ended(subject: StoreUnderTest) {
    let harness = subject.harness();
    let later = JobSpec { due: Due::In(LONG), keep: Some(LONG), ..JobSpec::default() };
    for job in [chain(), later.job()] {
        let id = harness.enqueue(job).await;
        let other = harness.with_store(subject.other_connection().await);
        assert_eq!(other.complete(&id, output(r#""approved""#)).await, Completed::Yes);
        let record = harness.get(&id).await.unwrap().record.unwrap();
        assert_eq!((record.state, &record.output[..]), (JobState::Done, &br#""approved""#[..]));
        harness.claim_nothing().await;
        harness.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_running_job_is_ended_and_its_worker_has_lost_the_lease(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    let claimed = harness.claim_one().await;
    assert_eq!(harness.complete(&id, output("1")).await, Completed::Yes);
    assert_eq!(harness.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Lost]);
    for outcome in [output("2"), continue_with(next("b")), retry(Duration::ZERO), dead("late")] {
        assert_eq!(harness.try_settle(&claimed, outcome).await, Verdict::LeaseLost);
    }
    assert_eq!(&harness.get(&id).await.unwrap().record.unwrap().output[..], b"1");
    harness.assert_counts([0, 0, 0, 0]).await;
}

pub async fn whoever_runs_it_is_told(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    harness.claim_one().await;
    let mut wakes = harness.store.subscribe();
    let other = harness.with_store(subject.other_connection().await);
    // A subscription receives everything from some moment on. Completing a job that is gone
    // publishes nothing.
    let listening = async {
        loop {
            match wakes.next().await {
                Some(Wake::LeaseLost(job)) if job == id => return,
                Some(Wake::Everything) if harness.state(&id).await == Some(JobState::Done) => return,
                _ => {}
            }
        }
    };
    let completing = async { assert_eq!(other.complete(&id, done()).await, Completed::Yes) };
    let both = futures_util::future::join(listening, completing);
    tokio::time::timeout(LONG, both).await.expect("the word that the lease is lost");
}

pub async fn a_job_that_is_ended_from_outside_may_continue(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    let claimed = harness.claim_one().await;
    assert_eq!(harness.complete(&id, continue_with(next("b"))).await, Completed::Yes);
    assert_eq!(harness.try_settle(&claimed, done()).await, Verdict::LeaseLost);
    let second = harness.claim_one().await;
    assert_eq!(second.lease.job, id.at_step(1));
    harness.settle(&second, done()).await;
}

pub async fn a_step_that_was_left_behind_is_not_touched(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    assert_eq!(harness.complete(&id, output("late")).await, Completed::Ended(JobState::Done));
    assert_eq!(harness.claim_one().await.lease.job, id.at_step(1));
}

pub async fn a_blocked_job_is_ended_and_waits_for_nobody(subject: StoreUnderTest) {
    let harness = subject.harness();
    let blocker = harness.enqueue(chain()).await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    assert_eq!(harness.complete(&id, output("1")).await, Completed::Yes);
    harness.settle(&harness.claim_one().await, done()).await;
    harness.promote().await;
    harness.claim_nothing().await;
    assert_eq!(harness.state(&id).await, Some(JobState::Done));
    assert_eq!(harness.counts().await.blocked, 0);
}

pub async fn ending_a_chain_from_outside_releases_whoever_waits_for_it(subject: StoreUnderTest) {
    let harness = subject.harness();
    let blocker = harness.enqueue(chain()).await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    assert_eq!(harness.complete(&blocker, output("9")).await, Completed::Yes);
    let claimed = until("the job to start", || async {
        harness.promote().await;
        harness.try_claim(1).await.pop()
    })
    .await;
    assert_eq!(claimed.lease.job, id);
    assert_eq!(super::harness::envelope(&claimed).blockers().unwrap()[0].output.get(), "9");
}

pub async fn what_has_ended_or_never_was_cannot_be_ended(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.closed_chain("1").await;
    assert_eq!(harness.complete(&id, output("2")).await, Completed::Ended(JobState::Done));
    assert_eq!(harness.complete(&JobId::generate(), done()).await, Completed::NotFound);
    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, dead("bad")).await;
    assert_eq!(harness.complete(&id, output("2")).await, Completed::Ended(JobState::Dead));
}

pub async fn of_many_who_end_a_job_one_does(subject: StoreUnderTest) {
    let harness = subject.harness();
    let other = harness.with_store(subject.other_connection().await);
    for round in 0..10 {
        let id = harness.enqueue(chain()).await;
        let claimed = harness.claim_one().await;
        let outside = (0..4).map(|index| {
            let (harness, id) = ([&harness, &other][index % 2].clone(), id.clone());
            tokio::spawn(async move { harness.complete(&id, output("1")).await == Completed::Yes })
        });
        let inside = {
            let harness = harness.clone();
            tokio::spawn(async move { harness.try_settle(&claimed, output("0")).await == Verdict::Accepted })
        };
        let tasks: Vec<_> = outside.chain([inside]).collect();
        let accepted = join_all(tasks).await.into_iter().filter(|done| *done.as_ref().unwrap()).count();
        assert_eq!(accepted, 1, "round {round}");
    }
}

pub async fn ending_from_outside_leaves_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let brief = JobSpec { keep: Some(Duration::from_millis(50)), ..JobSpec::default() };
    let id = harness.enqueue(brief.job()).await;
    assert_eq!(harness.complete(&id, done()).await, Completed::Yes);
    let id = harness.enqueue(brief.job()).await;
    harness.claim_one().await;
    assert_eq!(harness.complete(&id, continue_with(next("b"))).await, Completed::Yes);
    assert_eq!(harness.complete(&id.at_step(1), done()).await, Completed::Yes);
    let plain = harness.enqueue(super::harness::job()).await;
    assert_eq!(harness.complete(&plain, done()).await, Completed::Yes);
    assert_nothing_is_left(&subject, &harness).await;
}

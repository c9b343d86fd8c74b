//! Jobs that wait for chains.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::chain::Continuation;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead, redrive};
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Cancelled, Claimed, Due, Error, NewJob};

use super::cleanup::assert_nothing_is_left;
use super::harness::{LONG, SHORT, JobSpec, chain, chain_after, dead, done, envelope, continue_with, job, next, output, until};
use super::{QueueHarness, StoreUnderTest};

/// The results of the chains that a job waited for.
fn told(claimed: &Claimed) -> Vec<(JobId, JobState, String)> {
    let blockers = envelope(claimed).blockers().unwrap();
    blockers.into_iter().map(|told| (told.chain, told.state, told.output.get().to_owned())).collect()
}

async fn claim_blocked(harness: &QueueHarness, id: &JobId) -> Claimed {
    until("a blocked job to start", || async {
        harness.promote().await;
        let claimed = harness.try_claim(1).await.pop()?;
        (claimed.lease.job.chain() == *id).then_some(claimed)
    })
    .await
}

pub async fn a_job_starts_when_all_its_blockers_are_closed_and_sees_their_outputs(subject: StoreUnderTest) {
    let harness = subject.harness();
    let blockers = [harness.enqueue(chain()).await, harness.enqueue(chain()).await];
    let (one, two) = (harness.claim_chain(&blockers[0]).await, harness.claim_chain(&blockers[1]).await);
    let id = harness.enqueue(chain_after(&blockers)).await;
    let info = harness.get(&id).await.unwrap();
    assert_eq!(info.state, JobState::Blocked);
    assert_eq!(info.waits_for.len(), 2);
    harness.claim_nothing().await;
    // In the order in which they were named, whichever ends first.
    harness.settle(&two, output(r#"{"n":2}"#)).await;
    until("one blocker to be done with", || async {
        harness.promote().await;
        (harness.get(&id).await?.waits_for == [blockers[0].clone()]).then_some(())
    })
    .await;
    harness.claim_nothing().await;
    harness.settle(&one, output("1")).await;
    let claimed = claim_blocked(&harness, &id).await;
    let expected = [
        (blockers[0].clone(), JobState::Done, "1".to_owned()),
        (blockers[1].clone(), JobState::Done, r#"{"n":2}"#.to_owned()),
    ];
    assert_eq!(told(&claimed), expected);
    assert_eq!(envelope(&claimed).payload(), br#"{"n":1}"#);
    harness.settle(&claimed, done()).await;
    harness.claim_nothing().await;
}

pub async fn a_chain_that_is_closed_already_blocks_nobody(subject: StoreUnderTest) {
    let harness = subject.harness();
    let closed = harness.closed_chain("5").await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&closed))).await;
    let claimed = claim_blocked(&harness, &id).await;
    assert_eq!(told(&claimed), [(closed, JobState::Done, "5".to_owned())]);
}

pub async fn a_chain_blocks_until_its_last_job_has_ended(subject: StoreUnderTest) {
    let harness = subject.harness();
    let blocker = harness.enqueue(chain()).await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    for step in ["b", "c"] {
        harness.settle(&harness.claim_one().await, continue_with(next(step))).await;
        assert_eq!(harness.state(&id).await, Some(JobState::Blocked));
    }
    harness.settle(&harness.claim_one().await, output("3")).await;
    let claimed = claim_blocked(&harness, &id).await;
    assert_eq!(told(&claimed), [(blocker, JobState::Done, "3".to_owned())]);
}

pub async fn the_next_step_may_wait_too(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    let first = harness.claim_one().await;
    let blockers = [harness.closed_chain("1").await, harness.enqueue(chain()).await];
    let running = harness.claim_one().await;
    harness.settle(&first, continue_with(Continuation { after: blockers.to_vec(), ..next("join") })).await;
    let info = harness.get(&id).await.unwrap();
    assert_eq!((info.state, info.job), (JobState::Blocked, id.at_step(1)));
    harness.settle(&running, output("2")).await;
    let claimed = claim_blocked(&harness, &id).await;
    assert_eq!(told(&claimed).into_iter().map(|(_, _, output)| output).collect::<Vec<_>>(), ["1", "2"]);
    harness.settle(&claimed, continue_with(next("after"))).await;
    assert!(told(&harness.claim_one().await).is_empty(), "what was told belongs to the step that waited");
}

pub async fn a_blocked_job_that_is_not_due_yet_is_scheduled_then(subject: StoreUnderTest) {
    let harness = subject.harness();
    let blocker = harness.enqueue(chain()).await;
    let later = NewJob { due: Due::In(LONG), ..chain_after(std::slice::from_ref(&blocker)) };
    let id = harness.enqueue(later).await;
    assert_eq!(harness.state(&id).await, Some(JobState::Blocked));
    harness.settle(&harness.claim_one().await, done()).await;
    until("the job to be scheduled", || async {
        harness.promote().await;
        (harness.state(&id).await == Some(JobState::Scheduled)).then_some(())
    })
    .await;
    harness.claim_nothing().await;
}

pub async fn what_a_job_was_told_survives_its_retries(subject: StoreUnderTest) {
    let harness = subject.harness();
    let closed = harness.closed_chain(r#""x""#).await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&closed))).await;
    let claimed = claim_blocked(&harness, &id).await;
    harness.settle(&claimed, super::harness::retry(Duration::ZERO)).await;
    let again = harness.claim_one().await;
    assert_eq!(told(&again), [(closed, JobState::Done, r#""x""#.to_owned())]);
}

pub async fn a_chain_that_is_not_there_cannot_be_waited_for(subject: StoreUnderTest) {
    let harness = subject.harness();
    let open = harness.enqueue(chain()).await;
    let batch = [chain(), chain_after(&[open.clone(), JobId::generate()])];
    let ids: Vec<_> = batch.iter().map(|job| job.id.clone()).collect();
    let answer = harness.enqueue_batch(vec![batch[1].clone()]).await;
    assert!(matches!(answer, Err(Error::NotFound(_))), "{answer:?}");
    assert_eq!(harness.state(&ids[1]).await, None);
    harness.settle(&harness.claim_one().await, done()).await;
    harness.claim_nothing().await;
}

pub async fn a_job_that_keeps_no_result_cannot_be_waited_for(subject: StoreUnderTest) {
    let harness = subject.harness();
    let open = harness.enqueue(job()).await;
    let answer = harness.enqueue_batch(vec![chain_after(&[open])]).await;
    assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    harness.settle(&harness.claim_one().await, done()).await;
    harness.claim_nothing().await;
}

pub async fn the_next_step_is_told_of_a_chain_that_is_gone(subject: StoreUnderTest) {
    let harness = subject.harness();
    let (gone, unkept) = (JobId::generate(), harness.enqueue(job()).await);
    let plain = harness.claim_one().await;
    let id = harness.enqueue(chain()).await;
    let first = harness.claim_one().await;
    let after = vec![gone.clone(), unkept.clone(), id.clone()];
    harness.settle(&first, continue_with(Continuation { after, ..next("join") })).await;
    let claimed = claim_blocked(&harness, &id).await;
    let expected = [gone, unkept, id].map(|chain| (chain, JobState::Cancelled, "null".to_owned()));
    assert_eq!(told(&claimed), expected);
    harness.settle(&plain, done()).await;
}

pub async fn a_cancelled_chain_releases_with_the_word_cancelled(subject: StoreUnderTest) {
    let harness = subject.harness();
    let (waiting, running) = (harness.enqueue(chain()).await, harness.enqueue(chain()).await);
    let held = harness.claim_chain(&running).await;
    let id = harness.enqueue(chain_after(&[waiting.clone(), running.clone()])).await;
    assert_eq!(harness.store.cancel(&waiting).await.unwrap(), Cancelled::Removed);
    harness.settle(&held, Outcome::Cancelled).await;
    let claimed = claim_blocked(&harness, &id).await;
    let expected = [waiting, running].map(|chain| (chain, JobState::Cancelled, "null".to_owned()));
    assert_eq!(told(&claimed), expected);
}

pub async fn a_dead_chain_releases_nobody_until_it_is_brought_back_or_dropped(subject: StoreUnderTest) {
    let harness = subject.harness();
    for is_dropped in [false, true] {
        let blocker = harness.enqueue(chain()).await;
        let id = harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
        harness.settle(&harness.claim_one().await, dead("bad")).await;
        harness.promote().await;
        assert_eq!(harness.state(&id).await, Some(JobState::Blocked));
        let state = if is_dropped {
            assert_eq!(drop_dead(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
            JobState::Cancelled
        } else {
            assert_eq!(redrive(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
            harness.settle(&harness.claim_one().await, done()).await;
            JobState::Done
        };
        let claimed = claim_blocked(&harness, &id).await;
        assert_eq!(told(&claimed)[0].1, state);
        harness.settle(&claimed, done()).await;
    }
}

pub async fn an_at_most_once_job_whose_worker_died_releases_whoever_waits_for_it(subject: StoreUnderTest) {
    let (harness, once) = (subject.harness(), subject.at_most_once_harness().with_lease(SHORT));
    let blocker = once.enqueue(chain()).await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    once.claim_one().await;
    once.expire_and_rescue(1).await;
    let claimed = claim_blocked(&harness, &id).await;
    assert_eq!(told(&claimed), [(blocker, JobState::Cancelled, "null".to_owned())]);
}

pub async fn a_purged_chain_releases_whoever_waits_elsewhere(subject: StoreUnderTest) {
    let (harness, other) =
        (subject.harness(), subject.harness_on("other", tidemill_core::name::Guarantee::AtLeastOnce));
    let blocker = harness.enqueue(chain()).await;
    let id = other.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    assert_eq!(harness.store.purge(&harness.queue).await.unwrap(), 1);
    let claimed = claim_blocked(&other, &id).await;
    assert_eq!(told(&claimed)[0].1, JobState::Cancelled);
}

pub async fn a_blocked_job_is_listed_counted_cancelled_and_purged(subject: StoreUnderTest) {
    let (harness, other) =
        (subject.harness(), subject.harness_on("other", tidemill_core::name::Guarantee::AtLeastOnce));
    let blocker = other.enqueue(chain()).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await);
    }
    assert_eq!(harness.counts().await.blocked, 3);
    harness.assert_counts([0, 0, 0, 0]).await;
    let mut listed: Vec<_> = harness.list(JobState::Blocked, 2).await.into_iter().map(|info| info.job).collect();
    listed.sort();
    ids.sort();
    assert_eq!(listed, ids);
    assert_eq!(harness.store.cancel(&ids[0]).await.unwrap(), Cancelled::Removed);
    assert_eq!(harness.counts().await.blocked, 2);
    assert_eq!(harness.store.purge(&harness.queue).await.unwrap(), 2);
    assert_eq!(harness.counts().await.blocked, 0);
    other.settle(&other.claim_one().await, done()).await;
    harness.claim_nothing().await;
}

pub async fn many_may_wait_for_one_and_one_for_many(subject: StoreUnderTest) {
    let harness = subject.harness();
    let root = harness.enqueue(chain()).await;
    let held = harness.claim_one().await;
    let mut fan = Vec::new();
    for _ in 0..30 {
        fan.push(harness.enqueue(chain_after(std::slice::from_ref(&root))).await);
    }
    let join = harness.enqueue(chain_after(&fan)).await;
    harness.settle(&held, done()).await;
    let mut ended = 0;
    while ended < 30 {
        harness.promote().await;
        for claimed in harness.try_claim(10).await {
            harness.settle(&claimed, output(&format!("{ended}"))).await;
            ended += 1;
        }
    }
    let claimed = claim_blocked(&harness, &join).await;
    let chains: Vec<_> = told(&claimed).into_iter().map(|(chain, _, _)| chain).collect();
    assert_eq!(chains, fan);
}

pub async fn chains_that_close_at_the_same_moment_start_each_job_once(subject: StoreUnderTest) {
    const JOBS: usize = 50;
    let harness = subject.harness();
    let other = harness.with_store(subject.other_connection().await);
    let pairs = subject.harness_on("pairs", tidemill_core::name::Guarantee::AtLeastOnce);
    let blockers: Vec<_> = (0..2 * JOBS).map(|_| chain()).collect();
    let ids: Vec<_> = blockers.iter().map(|job| job.id.clone()).collect();
    harness.enqueue_batch(blockers).await.unwrap();
    let held = harness.claim(2 * JOBS).await;
    let held = |id: &JobId| held.iter().find(|claimed| claimed.lease.job == *id).unwrap().clone();
    for pair in ids.chunks(2) {
        pairs.enqueue(chain_after(pair)).await;
    }
    let close = |harness: &QueueHarness, id: &JobId| {
        let (harness, claimed) = (harness.clone(), held(id));
        tokio::spawn(async move { harness.settle(&claimed, done()).await })
    };
    let closing = ids.chunks(2).flat_map(|pair| [close(&harness, &pair[0]), close(&other, &pair[1])]);
    join_all(closing.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
    assert_all_start_once(&pairs, JOBS).await;
}

pub async fn a_job_that_begins_to_wait_while_its_chain_closes_starts_once(subject: StoreUnderTest) {
    const JOBS: usize = 50;
    let harness = subject.harness();
    let other = subject.other_connection().await;
    let late = subject.harness_on("late", tidemill_core::name::Guarantee::AtLeastOnce).with_store(other);
    harness.enqueue_batch((0..JOBS).map(|_| chain()).collect()).await.unwrap();
    let tasks = harness.claim(JOBS).await.into_iter().flat_map(|claimed| {
        let (harness, late, id) = (harness.clone(), late.clone(), claimed.lease.job.clone());
        let closing = tokio::spawn(async move { harness.settle(&claimed, done()).await });
        let waiting = tokio::spawn(async move {
            late.enqueue(chain_after(&[id])).await;
        });
        [closing, waiting]
    });
    join_all(tasks.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
    assert_all_start_once(&late, JOBS).await;
}

async fn assert_all_start_once(harness: &QueueHarness, jobs: usize) {
    let mut started = std::collections::HashSet::new();
    let begun = std::time::Instant::now();
    while started.len() < jobs {
        assert!(begun.elapsed() < LONG, "{} of {jobs} jobs started", started.len());
        harness.promote().await;
        for claimed in harness.try_claim(50).await {
            assert!(started.insert(claimed.lease.job.clone()), "{} started twice", claimed.lease.job);
        }
    }
    harness.promote().await;
    harness.claim_nothing().await;
}

pub async fn waiting_leaves_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let brief = || JobSpec { keep: Some(Duration::from_millis(50)), ..JobSpec::default() }.job();
    let links = |after: &[JobId]| NewJob {
        links: tidemill_core::chain::JobLinks { after: after.to_vec(), dedup: None },
        ..brief()
    };
    let blockers = [harness.enqueue(brief()).await, harness.enqueue(brief()).await];
    let id = harness.enqueue(links(&blockers)).await;
    let cancelled = harness.enqueue(links(&blockers)).await;
    harness.store.cancel(&cancelled).await.unwrap();
    harness.settle(&harness.claim_chain(&blockers[0]).await, done()).await;
    harness.store.cancel(&blockers[1]).await.unwrap();
    harness.settle(&claim_blocked(&harness, &id).await, done()).await;
    harness.promote().await;
    assert_nothing_is_left(&subject, &harness).await;
}

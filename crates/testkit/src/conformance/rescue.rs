//! Rescue of jobs whose worker died, and only of those.

use std::time::{Duration, Instant};

use tidemill_core::dead_letter::DeathReason;
use tidemill_core::job::JobState;
use tidemill_core::settle::{Settlement, decide_expired};
use tidemill_core::store::{SettleParams, Extended, ExpiredLease, Verdict};

use super::harness::{LONG, SHORT, JobSpec, done, envelope, job};
use super::{QueueHarness, StoreUnderTest};

pub async fn a_job_comes_back_when_its_lease_runs_out(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    let first = harness.claim_one().await;
    harness.with_store(subject.other_connection().await).expire_and_rescue(1).await;
    harness.assert_counts([1, 0, 0, 0]).await;
    let second = harness.claim_one().await;
    assert_eq!(second.lease.job, id);
    assert!(second.lease.token > first.lease.token);
    assert_eq!((envelope(&second).attempts(), envelope(&second).crashes()), (1, 1));
}

pub async fn nothing_healthy_is_rescued(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(5).await;
        let claimed = harness.claim(5).await;
        assert!(harness.all_expired(10).await.is_empty());
        assert_eq!(harness.rescue().await, 0);
        for claimed in claimed {
            harness.settle(&claimed, done()).await;
        }
    }
}

pub async fn a_crash_counts_only_if_the_job_had_started(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue(job()).await;
    let started = harness.claim_one().await.lease.job;
    let held = harness.enqueue(job()).await;
    assert!(!harness.claim_with(1, 0, Duration::from_secs(5)).await[0].started);
    harness.expire_and_rescue(2).await;
    for claimed in harness.with_lease(LONG).claim(2).await {
        let expected = u32::from(claimed.lease.job == started);
        assert!(claimed.lease.job == started || claimed.lease.job == held);
        assert_eq!((envelope(&claimed).attempts(), envelope(&claimed).crashes()), (expected, expected));
    }
}

pub async fn an_expired_lease_names_its_holder_and_its_job(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let job = job();
    harness.enqueue(job.clone()).await;
    let claimed = harness.claim_one().await;
    let hold = harness.expire(1).await.remove(0);
    assert_eq!(hold.holder, harness.worker.as_str());
    assert_eq!((&hold.claimed.lease, hold.claimed.started), (&claimed.lease, true));
    assert_eq!(envelope(&hold.claimed).bytes(), &job.envelope);
}

/// The settlement of an expired lease.
fn verdict_on(harness: &QueueHarness, hold: &ExpiredLease) -> Settlement {
    let now = harness.store.clock().now();
    let change = decide_expired(envelope(&hold.claimed), hold.claimed.started, now);
    Settlement { lease: hold.claimed.lease.clone(), change }
}

pub async fn a_lease_that_was_extended_since_is_not_rescued(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    let claimed = harness.claim_one().await;
    let rescue = verdict_on(&harness, &harness.expire(1).await[0]);
    let long = harness.clone().with_lease(LONG);
    assert_eq!(long.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
    assert_eq!(harness.store.settle(SettleParams::expired(&[rescue])).await.unwrap(), [Verdict::LeaseLost]);
    assert_eq!(harness.state(&id).await, Some(JobState::Running));
    harness.settle(&claimed, done()).await;
}

pub async fn a_lease_that_was_settled_since_is_not_rescued(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    let claimed = harness.claim_one().await;
    let rescue = verdict_on(&harness, &harness.expire(1).await[0]);
    harness.settle(&claimed, done()).await;
    assert_eq!(harness.store.settle(SettleParams::expired(&[rescue])).await.unwrap(), [Verdict::LeaseLost]);
    assert_eq!(harness.state(&id).await, None);
}

pub async fn a_lease_is_rescued_once(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue(job()).await;
    harness.claim(1).await;
    let rescue = verdict_on(&harness, &harness.expire(1).await[0]);
    let twice = [rescue.clone(), rescue.clone()];
    assert_eq!(harness.store.settle(SettleParams::expired(&twice)).await.unwrap(), [Verdict::Accepted, Verdict::LeaseLost]);
    assert_eq!(harness.store.settle(SettleParams::expired(&[rescue])).await.unwrap(), [Verdict::LeaseLost]);
    assert_eq!(harness.claim(1).await.len(), 1);
    harness.claim_nothing().await;
}

pub async fn the_one_expired_lease_is_found_among_hundreds_of_healthy_ones(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(Duration::from_millis(1000));
    let id = harness.enqueue(job()).await;
    harness.claim(1).await;
    harness.expire(1).await;
    harness.enqueue_many(300).await;
    let healthy: Vec<_> = harness.claim(300).await.into_iter().map(|claimed| claimed.lease).collect();
    let found = super::until("a look within one lease", || async {
        let begun = Instant::now();
        harness.extend(&healthy).await;
        let found = harness.all_expired(10).await;
        // Only a fast enough listing proves that leases are valid.
        (begun.elapsed() < harness.lease).then_some(found)
    })
    .await;
    let found: Vec<_> = found.into_iter().map(|hold| hold.claimed.lease.job).collect();
    assert_eq!(found, [id]);
}

pub async fn a_rescue_covers_every_page(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue_many(600).await;
    harness.claim(600).await;
    harness.expire(600).await;
    assert_eq!(harness.rescue().await, 600);
    harness.assert_counts([600, 0, 0, 0]).await;
}

pub async fn a_page_of_expired_leases_is_bounded(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    harness.enqueue_many(25).await;
    harness.claim(25).await;
    harness.expire(25).await;
    let page = harness.expired(None, 10).await;
    assert!(page.leases.len() <= 10 && page.next.is_some(), "{} leases", page.leases.len());
    let mut all: Vec<_> = harness.all_expired(10).await.into_iter().map(|hold| hold.claimed.lease.job).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 25);
}

pub async fn a_poison_job_ends_in_the_dead_letters(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(JobSpec { max_attempts: 3, ..JobSpec::default() }.job()).await;
    for _ in 0..3 {
        harness.claim(1).await;
        harness.expire_and_rescue(1).await;
    }
    harness.claim_nothing().await;
    let letter = harness.letter(&id).await;
    assert_eq!(letter.reason, DeathReason::MaxAttemptsExceeded);
    assert_eq!(letter.envelope().unwrap().attempts(), 3);
    harness.assert_counts([0, 0, 0, 1]).await;
}

pub async fn one_look_covers_every_queue(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let others = (0..30).map(|n| subject.harness_on(&format!("other-{n}"), harness.queue.guarantee).with_lease(SHORT));
    let others: Vec<QueueHarness> = others.collect();
    for other in &others {
        other.enqueue(job()).await;
        other.claim(1).await;
    }
    for other in &others {
        other.expire(1).await;
    }
    // Listed by a rescuer that serves none of these queues.
    assert_eq!(harness.rescue().await, 30);
    for other in &others {
        other.assert_counts([1, 0, 0, 0]).await;
    }
}

pub async fn a_look_says_what_time_it_is(subject: StoreUnderTest) {
    let harness = subject.harness();
    let first = harness.expired(None, 10).await.shard_times;
    let second = harness.expired(None, 10).await.shard_times;
    assert!(!first.is_empty() && first.len() == second.len());
    assert!(first.iter().zip(&second).all(|(first, second)| first <= second), "{first:?} {second:?}");
}

pub async fn a_rescued_job_wakes_a_waiting_claim(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    harness.claim(1).await;
    let other = harness.with_store(subject.other_connection().await);
    let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
    harness.expire_and_rescue(1).await;
    let given = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it is woken").unwrap();
    assert_eq!(given[0].lease.job, id);
}

//! Delayed jobs: never early, and ready when they are due.

use std::time::{Duration, Instant};

use tidemill_core::clock::Timestamp;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Due, PromoteParams};

use super::harness::{JobSpec, job, until};
use super::{QueueHarness, StoreUnderTest};

const HOUR: Duration = Duration::from_secs(3600);

const THIRTY_YEARS: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

fn due(due: Due) -> JobSpec {
    JobSpec { due, ..JobSpec::default() }
}

pub async fn a_delayed_job_is_never_early(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let begun = Instant::now();
        let id = harness.enqueue(due(Due::In(Duration::from_millis(300))).job()).await;
        let claimed = harness.claim_when_due(1).await.remove(0);
        assert!(begun.elapsed() >= Duration::from_millis(298), "{:?}", begun.elapsed());
        assert_eq!(claimed.lease.job, id);
    }
}

pub async fn a_job_with_a_time_is_never_early(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let time = harness.store.clock().now().after(Duration::from_millis(300));
        let id = harness.enqueue(due(Due::At(time)).job()).await;
        assert_eq!(harness.get(&id).await.unwrap().due, Some(time));
        harness.claim_when_due(1).await;
        // The local estimate of the store's clock may be slightly behind.
        let now = harness.store.clock().now().after(Duration::from_millis(50));
        assert!(now >= time, "{now} before {time}");
    }
}

pub async fn a_delayed_job_is_scheduled_until_then(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(due(Due::In(HOUR)).job()).await;
        assert_eq!(harness.promote().await.moved, 0);
        harness.claim_nothing().await;
        let info = harness.get(&id).await.unwrap();
        let now = harness.store.clock().now();
        assert_eq!(info.state, JobState::Scheduled);
        assert!(now.until(info.due.unwrap()) > HOUR / 2);
        harness.assert_counts([0, 1, 0, 0]).await;
    }
}

pub async fn a_time_in_the_past_is_now(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let past = harness.store.clock().now().0 - 60_000;
        for time in [Due::At(Timestamp(past)), Due::At(Timestamp(0)), Due::At(Timestamp(-1)), Due::In(Duration::ZERO)] {
            let id = harness.enqueue(due(time).job()).await;
            assert_eq!(harness.state(&id).await, Some(JobState::Ready));
            assert_eq!(harness.claim_one().await.lease.job, id);
        }
    }
}

pub async fn promoting_says_how_long_until_the_next(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        assert_eq!(harness.promote().await.next, None);
        for delay in [HOUR, 2 * HOUR] {
            harness.enqueue(due(Due::In(delay)).job()).await;
        }
        let next = harness.promote().await.next.expect("one is scheduled");
        assert!(next > HOUR / 2 && next <= HOUR, "{next:?}");
    }
}

pub async fn promoting_moves_a_bounded_number_and_says_if_there_are_more(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let soon = due(Due::In(Duration::from_millis(30)));
        harness.enqueue_batch((0..10).map(|_| soon.job()).collect()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let queues = [harness.queue.clone()];
        // A store that only compares due times has nothing to move.
        loop {
            let step = harness.store.promote(PromoteParams { queues: &queues, limit: 3 }).await.unwrap();
            assert!(step.moved <= 3 || subject.is_sharded(), "{step:?}");
            if step.next != Some(Duration::ZERO) {
                break;
            }
        }
        harness.assert_counts([10, 0, 0, 0]).await;
    }
}

pub async fn promoting_covers_every_queue_it_is_given(subject: StoreUnderTest) {
    let harnesses = subject.harnesses();
    for harness in &harnesses {
        harness.enqueue(due(Due::In(Duration::from_millis(30))).job()).await;
    }
    let queues = harnesses.each_ref().map(|harness| harness.queue.clone());
    tokio::time::sleep(Duration::from_millis(30)).await;
    until("both to be ready", || async {
        harnesses[0].store.promote(PromoteParams { queues: &queues, limit: 10 }).await.unwrap();
        let (one, other) = (harnesses[0].counts().await, harnesses[1].counts().await);
        (one.ready == 1 && other.ready == 1).then_some(())
    })
    .await;
}

pub async fn delayed_jobs_come_in_the_order_of_their_times(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let mut ids = Vec::new();
        let now = harness.store.clock().now();
        // Absolute times, far enough ahead: a job whose time has passed when it is enqueued is
        // ready at once.
        for delay in [900, 300, 600] {
            let time = now.after(Duration::from_millis(delay));
            ids.push(harness.enqueue(due(Due::At(time)).job()).await);
        }
        tokio::time::sleep(Duration::from_millis(1000)).await;
        let given = harness.claim_when_due(3).await;
        let given: Vec<_> = given.into_iter().map(|claimed| claimed.lease.job).collect();
        let expected = [&ids[1], &ids[2], &ids[0]].map(Clone::clone);
        assert!(given == expected || subject.is_sharded(), "{given:?} instead of {expected:?}");
    }
}

pub async fn a_waiting_claim_is_given_a_job_whose_time_has_come(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let other = harness.with_store(subject.other_connection().await);
        let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
        let id = harness.enqueue(due(Due::In(Duration::from_millis(100))).job()).await;
        let given = until("the waiting claim", || async {
            harness.promote().await;
            waiting.is_finished().then_some(())
        });
        given.await;
        assert_eq!(waiting.await.unwrap()[0].lease.job, id);
    }
}

pub async fn a_job_in_thirty_years_disturbs_no_other(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let far = harness.enqueue(due(Due::In(THIRTY_YEARS)).job()).await;
        assert_only_this_is_far_away(&harness, &far).await;
        let now = harness.enqueue(job()).await;
        assert_eq!(harness.claim_one().await.lease.job, now);
        // A waiting claim waits for the next due job, not for thirty years.
        let other = harness.with_store(subject.other_connection().await);
        let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
        let soon = harness.enqueue(due(Due::In(Duration::from_millis(100))).job()).await;
        until("the waiting claim", || async {
            let next = harness.promote().await.next.expect("one is scheduled");
            assert!(next <= THIRTY_YEARS, "{next:?}");
            waiting.is_finished().then_some(())
        })
        .await;
        assert_eq!(waiting.await.unwrap()[0].lease.job, soon);
        let now = harness.store.clock().now();
        // Far enough away that a slow enqueue does not find them due already.
        let pair = [400, 200].map(|delay| due(Due::At(now.after(Duration::from_millis(delay)))).job());
        let expected = [pair[1].id.clone(), pair[0].id.clone()];
        harness.enqueue_batch(pair.to_vec()).await.unwrap();
        let given = harness.claim_when_due(2).await.into_iter().map(|claimed| claimed.lease.job);
        let given: Vec<_> = given.collect();
        assert!(given == expected || subject.is_sharded(), "{given:?} instead of {expected:?}");
        assert_only_this_is_far_away(&harness, &far).await;
    }
}

/// Nothing else is scheduled, and no wake-up asks for an earlier promotion than needed, or for
/// none.
async fn assert_only_this_is_far_away(harness: &QueueHarness, far: &JobId) {
    let promoted = harness.promote().await;
    let next = promoted.next.expect("one is scheduled");
    assert_eq!(promoted.moved, 0);
    assert!(next > THIRTY_YEARS - HOUR && next <= THIRTY_YEARS, "{next:?}");
    harness.claim_nothing().await;
    assert_eq!(harness.state(far).await, Some(JobState::Scheduled));
    assert_eq!(harness.counts().await.scheduled, 1);
}

pub async fn a_job_at_the_end_of_time_disturbs_no_other(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let endless = harness.enqueue(due(Due::At(Timestamp(i64::MAX))).job()).await;
        assert_eq!(harness.promote().await.moved, 0);
        let soon = harness.enqueue(due(Due::In(Duration::from_millis(100))).job()).await;
        assert_eq!(harness.claim_when_due(1).await.remove(0).lease.job, soon);
        assert_eq!(harness.state(&endless).await, Some(JobState::Scheduled));
        harness.store.purge(&harness.queue).await.unwrap();
    }
}

pub async fn nothing_to_promote_is_no_error(subject: StoreUnderTest) {
    let harness = subject.harness();
    let none = harness.store.promote(PromoteParams { queues: &[], limit: 10 }).await.unwrap();
    assert_eq!((none.moved, none.next), (0, None));
    harness.enqueue(job()).await;
    assert_eq!(harness.promote().await.moved, 0);
}

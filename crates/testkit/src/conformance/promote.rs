//! Delayed jobs: never early, and ready when their time has come.

use std::time::{Duration, Instant};

use tidemill_core::clock::Timestamp;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Due, PromoteParams};

use super::scene::{Traits, job, until};
use super::{Scene, Subject};

const HOUR: Duration = Duration::from_secs(3600);

const THIRTY_YEARS: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

fn due(due: Due) -> Traits {
    Traits { due, ..Traits::default() }
}

pub async fn a_delayed_job_is_never_early(subject: Subject) {
    for scene in subject.scenes() {
        let begun = Instant::now();
        let id = scene.enqueue(due(Due::In(Duration::from_millis(300))).job()).await;
        let claimed = scene.claim_when_due(1).await.remove(0);
        assert!(begun.elapsed() >= Duration::from_millis(298), "{:?}", begun.elapsed());
        assert_eq!(claimed.lease.job, id);
    }
}

pub async fn a_job_with_a_time_is_never_early(subject: Subject) {
    for scene in subject.scenes() {
        let time = scene.store.clock().now().after(Duration::from_millis(300));
        let id = scene.enqueue(due(Due::At(time)).job()).await;
        assert_eq!(scene.get(&id).await.unwrap().due, Some(time));
        scene.claim_when_due(1).await;
        // What is known of the store's clock without asking may be a little behind.
        let now = scene.store.clock().now().after(Duration::from_millis(50));
        assert!(now >= time, "{now} before {time}");
    }
}

pub async fn a_delayed_job_is_scheduled_until_then(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(due(Due::In(HOUR)).job()).await;
        assert_eq!(scene.promote().await.moved, 0);
        scene.claim_nothing().await;
        let info = scene.get(&id).await.unwrap();
        let now = scene.store.clock().now();
        assert_eq!(info.state, JobState::Scheduled);
        assert!(now.until(info.due.unwrap()) > HOUR / 2);
        scene.assert_counts([0, 1, 0, 0]).await;
    }
}

pub async fn a_time_in_the_past_is_now(subject: Subject) {
    for scene in subject.scenes() {
        let past = scene.store.clock().now().0 - 60_000;
        for time in [Due::At(Timestamp(past)), Due::At(Timestamp(0)), Due::At(Timestamp(-1)), Due::In(Duration::ZERO)] {
            let id = scene.enqueue(due(time).job()).await;
            assert_eq!(scene.state(&id).await, Some(JobState::Ready));
            assert_eq!(scene.claim_one().await.lease.job, id);
        }
    }
}

pub async fn promoting_says_how_long_until_the_next(subject: Subject) {
    for scene in subject.scenes() {
        assert_eq!(scene.promote().await.next, None);
        for delay in [HOUR, 2 * HOUR] {
            scene.enqueue(due(Due::In(delay)).job()).await;
        }
        let next = scene.promote().await.next.expect("one is scheduled");
        assert!(next > HOUR / 2 && next <= HOUR, "{next:?}");
    }
}

pub async fn promoting_moves_a_bounded_number_and_says_if_there_are_more(subject: Subject) {
    for scene in subject.scenes() {
        let soon = due(Due::In(Duration::from_millis(30)));
        scene.enqueue_batch((0..10).map(|_| soon.job()).collect()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let queues = [scene.queue.clone()];
        // A store that goes by the due time alone has nothing to move.
        loop {
            let step = scene.store.promote(PromoteParams { queues: &queues, limit: 3 }).await.unwrap();
            assert!(step.moved <= 3 || subject.is_sharded(), "{step:?}");
            if step.next != Some(Duration::ZERO) {
                break;
            }
        }
        scene.assert_counts([10, 0, 0, 0]).await;
    }
}

pub async fn promoting_covers_every_queue_it_is_given(subject: Subject) {
    let scenes = subject.scenes();
    for scene in &scenes {
        scene.enqueue(due(Due::In(Duration::from_millis(30))).job()).await;
    }
    let queues = scenes.each_ref().map(|scene| scene.queue.clone());
    tokio::time::sleep(Duration::from_millis(30)).await;
    until("both to be ready", || async {
        scenes[0].store.promote(PromoteParams { queues: &queues, limit: 10 }).await.unwrap();
        let (one, other) = (scenes[0].counts().await, scenes[1].counts().await);
        (one.ready == 1 && other.ready == 1).then_some(())
    })
    .await;
}

pub async fn delayed_jobs_come_in_the_order_of_their_times(subject: Subject) {
    for scene in subject.scenes() {
        let mut ids = Vec::new();
        let now = scene.store.clock().now();
        // Times, not delays, and far enough ahead: one that is past when it is enqueued is ready at once.
        for delay in [900, 300, 600] {
            let time = now.after(Duration::from_millis(delay));
            ids.push(scene.enqueue(due(Due::At(time)).job()).await);
        }
        tokio::time::sleep(Duration::from_millis(1000)).await;
        let given = scene.claim_when_due(3).await;
        let given: Vec<_> = given.into_iter().map(|claimed| claimed.lease.job).collect();
        let expected = [&ids[1], &ids[2], &ids[0]].map(Clone::clone);
        assert!(given == expected || subject.is_sharded(), "{given:?} instead of {expected:?}");
    }
}

pub async fn a_waiting_claim_is_given_a_job_whose_time_has_come(subject: Subject) {
    for scene in subject.scenes() {
        let other = scene.through(subject.other().await);
        let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
        let id = scene.enqueue(due(Due::In(Duration::from_millis(100))).job()).await;
        let given = until("the waiting claim", || async {
            scene.promote().await;
            waiting.is_finished().then_some(())
        });
        given.await;
        assert_eq!(waiting.await.unwrap()[0].lease.job, id);
    }
}

pub async fn a_job_in_thirty_years_disturbs_no_other(subject: Subject) {
    for scene in subject.scenes() {
        let far = scene.enqueue(due(Due::In(THIRTY_YEARS)).job()).await;
        assert_only_this_is_far_away(&scene, &far).await;
        let now = scene.enqueue(job()).await;
        assert_eq!(scene.claim_one().await.lease.job, now);
        // Whoever waits meanwhile does so for what comes first, not for thirty years.
        let other = scene.through(subject.other().await);
        let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
        let soon = scene.enqueue(due(Due::In(Duration::from_millis(100))).job()).await;
        until("the waiting claim", || async {
            let next = scene.promote().await.next.expect("one is scheduled");
            assert!(next <= THIRTY_YEARS, "{next:?}");
            waiting.is_finished().then_some(())
        })
        .await;
        assert_eq!(waiting.await.unwrap()[0].lease.job, soon);
        let now = scene.store.clock().now();
        // Far enough away that a slow enqueue does not find them due already.
        let pair = [400, 200].map(|delay| due(Due::At(now.after(Duration::from_millis(delay)))).job());
        let expected = [pair[1].id.clone(), pair[0].id.clone()];
        scene.enqueue_batch(pair.to_vec()).await.unwrap();
        let given = scene.claim_when_due(2).await.into_iter().map(|claimed| claimed.lease.job);
        let given: Vec<_> = given.collect();
        assert!(given == expected || subject.is_sharded(), "{given:?} instead of {expected:?}");
        assert_only_this_is_far_away(&scene, &far).await;
    }
}

/// Nothing else is scheduled, and nobody is told to come by for it earlier than needed, or never.
async fn assert_only_this_is_far_away(scene: &Scene, far: &JobId) {
    let promoted = scene.promote().await;
    let next = promoted.next.expect("one is scheduled");
    assert_eq!(promoted.moved, 0);
    assert!(next > THIRTY_YEARS - HOUR && next <= THIRTY_YEARS, "{next:?}");
    scene.claim_nothing().await;
    assert_eq!(scene.state(far).await, Some(JobState::Scheduled));
    assert_eq!(scene.counts().await.scheduled, 1);
}

pub async fn a_job_at_the_end_of_time_disturbs_no_other(subject: Subject) {
    for scene in subject.scenes() {
        let endless = scene.enqueue(due(Due::At(Timestamp(i64::MAX))).job()).await;
        assert_eq!(scene.promote().await.moved, 0);
        let soon = scene.enqueue(due(Due::In(Duration::from_millis(100))).job()).await;
        assert_eq!(scene.claim_when_due(1).await.remove(0).lease.job, soon);
        assert_eq!(scene.state(&endless).await, Some(JobState::Scheduled));
        scene.store.purge(&scene.queue).await.unwrap();
    }
}

pub async fn nothing_to_promote_is_no_error(subject: Subject) {
    let scene = subject.scene();
    let none = scene.store.promote(PromoteParams { queues: &[], limit: 10 }).await.unwrap();
    assert_eq!((none.moved, none.next), (0, None));
    scene.enqueue(job()).await;
    assert_eq!(scene.promote().await.moved, 0);
}

//! Bringing back jobs whose worker died, and only those.

use std::time::{Duration, Instant};

use tidemill_core::dead_letter::DeathReason;
use tidemill_core::job::JobState;
use tidemill_core::settle::{Settlement, decide_expired};
use tidemill_core::store::{Extended, ExpiredLease, Verdict};

use super::scene::{LONG, SHORT, Traits, done, envelope, job};
use super::{Scene, Subject};

pub async fn a_job_comes_back_when_its_lease_runs_out(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    let first = scene.claim_one().await;
    scene.through(subject.other().await).expire_and_rescue(1).await;
    scene.assert_counts([1, 0, 0, 0]).await;
    let second = scene.claim_one().await;
    assert_eq!(second.lease.job, id);
    assert!(second.lease.token > first.lease.token);
    assert_eq!((envelope(&second).attempts(), envelope(&second).crashes()), (1, 1));
}

pub async fn nothing_healthy_is_rescued(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(5).await;
        let claimed = scene.claim(5).await;
        assert!(scene.all_expired(10).await.is_empty());
        assert_eq!(scene.rescue().await, 0);
        for claimed in claimed {
            scene.settle(&claimed, done()).await;
        }
    }
}

pub async fn a_crash_counts_only_if_the_job_had_started(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue(job()).await;
    let started = scene.claim_one().await.lease.job;
    let held = scene.enqueue(job()).await;
    assert!(!scene.claim_with(1, 0, Duration::from_secs(5)).await[0].started);
    scene.expire_and_rescue(2).await;
    for claimed in scene.leasing(LONG).claim(2).await {
        let expected = u32::from(claimed.lease.job == started);
        assert!(claimed.lease.job == started || claimed.lease.job == held);
        assert_eq!((envelope(&claimed).attempts(), envelope(&claimed).crashes()), (expected, expected));
    }
}

pub async fn an_expired_lease_names_its_holder_and_its_job(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let job = job();
    scene.enqueue(job.clone()).await;
    let claimed = scene.claim_one().await;
    let hold = scene.expire(1).await.remove(0);
    assert_eq!(hold.holder, scene.worker.as_str());
    assert_eq!((&hold.claimed.lease, hold.claimed.started), (&claimed.lease, true));
    assert_eq!(envelope(&hold.claimed).bytes(), &job.envelope);
}

/// What a rescuer makes of an expired lease.
fn verdict_on(scene: &Scene, hold: &ExpiredLease) -> Settlement {
    let now = scene.store.clock().now();
    let change = decide_expired(envelope(&hold.claimed), hold.claimed.started, now);
    Settlement { lease: hold.claimed.lease.clone(), change }
}

pub async fn a_lease_that_was_extended_since_is_not_rescued(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    let rescue = verdict_on(&scene, &scene.expire(1).await[0]);
    let long = scene.clone().leasing(LONG);
    assert_eq!(long.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
    assert_eq!(scene.store.rescue(&[rescue]).await.unwrap(), [Verdict::LeaseLost]);
    assert_eq!(scene.state(&id).await, Some(JobState::Running));
    scene.settle(&claimed, done()).await;
}

pub async fn a_lease_that_was_settled_since_is_not_rescued(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    let rescue = verdict_on(&scene, &scene.expire(1).await[0]);
    scene.settle(&claimed, done()).await;
    assert_eq!(scene.store.rescue(&[rescue]).await.unwrap(), [Verdict::LeaseLost]);
    assert_eq!(scene.state(&id).await, None);
}

pub async fn a_lease_is_rescued_once(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue(job()).await;
    scene.claim(1).await;
    let rescue = verdict_on(&scene, &scene.expire(1).await[0]);
    let twice = [rescue.clone(), rescue.clone()];
    assert_eq!(scene.store.rescue(&twice).await.unwrap(), [Verdict::Accepted, Verdict::LeaseLost]);
    assert_eq!(scene.store.rescue(&[rescue]).await.unwrap(), [Verdict::LeaseLost]);
    assert_eq!(scene.claim(1).await.len(), 1);
    scene.claim_nothing().await;
}

pub async fn the_one_expired_lease_is_found_among_hundreds_of_healthy_ones(subject: Subject) {
    let scene = subject.scene().leasing(Duration::from_millis(1000));
    let id = scene.enqueue(job()).await;
    scene.claim(1).await;
    scene.expire(1).await;
    scene.enqueue_many(300).await;
    let healthy: Vec<_> = scene.claim(300).await.into_iter().map(|claimed| claimed.lease).collect();
    let found = super::until("a look within one lease", || async {
        let begun = Instant::now();
        scene.extend(&healthy).await;
        let found = scene.all_expired(10).await;
        // Only a look that was quick enough shows leases that are healthy for certain.
        (begun.elapsed() < scene.lease).then_some(found)
    })
    .await;
    let found: Vec<_> = found.into_iter().map(|hold| hold.claimed.lease.job).collect();
    assert_eq!(found, [id]);
}

pub async fn a_rescue_covers_every_page(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue_many(600).await;
    scene.claim(600).await;
    scene.expire(600).await;
    assert_eq!(scene.rescue().await, 600);
    scene.assert_counts([600, 0, 0, 0]).await;
}

pub async fn a_page_of_expired_leases_is_bounded(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue_many(25).await;
    scene.claim(25).await;
    scene.expire(25).await;
    let page = scene.expired(None, 10).await;
    assert!(page.leases.len() <= 10 && page.next.is_some(), "{} leases", page.leases.len());
    let mut all: Vec<_> = scene.all_expired(10).await.into_iter().map(|hold| hold.claimed.lease.job).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 25);
}

pub async fn a_poison_job_ends_in_the_dead_letters(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(Traits { max_attempts: 3, ..Traits::default() }.job()).await;
    for _ in 0..3 {
        scene.claim(1).await;
        scene.expire_and_rescue(1).await;
    }
    scene.claim_nothing().await;
    let letter = scene.letter(&id).await;
    assert_eq!(letter.reason, DeathReason::MaxAttemptsExceeded);
    assert_eq!(letter.envelope().unwrap().attempts(), 3);
    scene.assert_counts([0, 0, 0, 1]).await;
}

pub async fn one_look_covers_every_queue(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let others = (0..30).map(|n| subject.scene_on(&format!("other-{n}"), scene.queue.guarantee).leasing(SHORT));
    let others: Vec<Scene> = others.collect();
    for other in &others {
        other.enqueue(job()).await;
        other.claim(1).await;
    }
    for other in &others {
        other.expire(1).await;
    }
    // Asked for by one that serves none of them.
    assert_eq!(scene.rescue().await, 30);
    for other in &others {
        other.assert_counts([1, 0, 0, 0]).await;
    }
}

pub async fn a_look_says_what_time_it_is(subject: Subject) {
    let scene = subject.scene();
    let first = scene.expired(None, 10).await.shard_times;
    let second = scene.expired(None, 10).await.shard_times;
    assert!(!first.is_empty() && first.len() == second.len());
    assert!(first.iter().zip(&second).all(|(first, second)| first <= second), "{first:?} {second:?}");
}

pub async fn a_rescued_job_wakes_a_waiting_claim(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    scene.claim(1).await;
    let other = scene.through(subject.other().await);
    let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
    scene.expire_and_rescue(1).await;
    let given = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it is woken").unwrap();
    assert_eq!(given[0].lease.job, id);
}

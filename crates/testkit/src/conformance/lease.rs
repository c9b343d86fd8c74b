//! Holding jobs: extending, starting, losing.

use std::time::{Duration, Instant};

use tidemill_core::lease::{Lease, Token};
use tidemill_core::store::{ExtendParams, Extended, Verdict};

use super::Subject;
use super::scene::{LONG, SHORT, dead, done, envelope, job, retry};

pub async fn an_extended_lease_does_not_run_out(subject: Subject) {
    let scene = subject.scene().leasing(Duration::from_millis(400));
    scene.enqueue(job()).await;
    let mut beat = Instant::now();
    let claimed = scene.claim_one().await;
    for _ in 0..10 {
        tokio::time::sleep(scene.lease / 4).await;
        let held = scene.extend(std::slice::from_ref(&claimed.lease)).await;
        // Only a beat that came in time proves anything.
        if beat.elapsed() >= scene.lease {
            return;
        }
        assert_eq!(held, [Extended::Yes]);
        beat = Instant::now();
        let expired = scene.all_expired(10).await;
        assert!(expired.is_empty() || beat.elapsed() >= scene.lease, "{expired:?}");
    }
}

pub async fn an_at_most_once_lease_is_extended_too(subject: Subject) {
    let scene = subject.scene_at_most_once();
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    assert_eq!(scene.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
    assert_eq!(scene.get(&id).await.unwrap().held_by.as_deref(), Some(scene.worker.as_str()));
    scene.settle(&claimed, done()).await;
}

pub async fn a_lease_is_lost_when_its_job_is_settled(subject: Subject) {
    for scene in subject.scenes() {
        for outcome in [done(), retry(Duration::ZERO), retry(LONG), dead("bad")] {
            scene.enqueue(job()).await;
            let claimed = scene.claim_one().await;
            scene.settle(&claimed, outcome).await;
            assert_eq!(scene.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Lost]);
            assert_eq!(scene.start(std::slice::from_ref(&claimed.lease)).await, [Verdict::LeaseLost]);
            scene.store.purge(&scene.queue).await.unwrap();
        }
    }
}

pub async fn a_lease_is_lost_when_its_job_is_rescued(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue(job()).await;
    let late = scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    assert_eq!(scene.extend(std::slice::from_ref(&late.lease)).await, [Extended::Lost]);
    let scene = scene.leasing(LONG);
    let now = scene.claim_one().await;
    let both = [late.lease, now.lease];
    assert_eq!(scene.extend(&both).await, [Extended::Lost, Extended::Yes]);
}

pub async fn an_expired_lease_can_be_extended_until_it_is_rescued(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    scene.expire(1).await;
    assert_eq!(scene.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Yes]);
    scene.settle(&claimed, done()).await;
}

pub async fn answers_come_in_the_order_of_the_leases(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(20).await;
        let mut claimed = scene.claim(20).await;
        for gone in claimed.iter().step_by(3) {
            scene.settle(gone, done()).await;
        }
        let expected: Vec<_> =
            (0..20).map(|index| if index % 3 == 0 { Extended::Lost } else { Extended::Yes }).rev().collect();
        claimed.reverse();
        let leases: Vec<_> = claimed.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(scene.extend(&leases).await, expected);
    }
}

pub async fn a_wrong_token_extends_and_starts_nothing(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue(job()).await;
        let claimed = scene.claim_one().await;
        for token in [claimed.lease.token.0 + 1, claimed.lease.token.0 - 1].map(Token) {
            let wrong = [Lease { token, ..claimed.lease.clone() }];
            assert_eq!(scene.extend(&wrong).await, [Extended::Lost]);
            assert_eq!(scene.start(&wrong).await, [Verdict::LeaseLost]);
        }
        scene.settle(&claimed, done()).await;
    }
}

pub async fn a_held_job_is_extended_started_and_settled(subject: Subject) {
    let scene = subject.scene();
    scene.enqueue(job()).await;
    let held = scene.claim_with(1, 0, Duration::from_secs(5)).await.remove(0);
    assert!(!held.started);
    let lease = std::slice::from_ref(&held.lease);
    assert_eq!(scene.extend(lease).await, [Extended::Yes]);
    assert_eq!(scene.start(lease).await, [Verdict::Accepted]);
    // Every verb is safe to repeat: the first answer may have been lost.
    assert_eq!(scene.start(lease).await, [Verdict::Accepted]);
    scene.settle(&held, done()).await;
}

pub async fn a_started_job_counts_its_crash(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue(job()).await;
    let held = scene.claim_with(1, 0, Duration::from_secs(5)).await.remove(0);
    if scene.start(std::slice::from_ref(&held.lease)).await == [Verdict::Accepted] {
        scene.expire_and_rescue(1).await;
        assert_eq!(envelope(&scene.claim_one().await).crashes(), 1);
    }
}

pub async fn nothing_to_extend_or_start_is_no_error(subject: Subject) {
    let scene = subject.scene();
    let extend = ExtendParams { worker: &scene.worker, leases: &[], lease: LONG };
    assert!(scene.store.extend(extend).await.unwrap().is_empty());
    assert!(scene.start(&[]).await.is_empty());
}

//! A claim whose answer was lost: what it took is found again by the worker that lives.

use std::collections::HashSet;

use tidemill_core::store::{Claimed, Extended, RecoverParams, Verdict};
use tidemill_core::{Lease, HolderId};

use super::scene::{SHORT, done, envelope, job};
use super::{Scene, Subject};

async fn recover(scene: &Scene, known: &[&Lease]) -> Vec<Claimed> {
    let known: HashSet<Lease> = known.iter().map(|lease| (*lease).clone()).collect();
    let (queue, worker, lease) = (&scene.queue, &scene.worker, scene.lease);
    scene.store.recover(RecoverParams { queue, worker, lease, known_leases: &known }).await.unwrap()
}

fn leases(claimed: &[Claimed]) -> HashSet<Lease> {
    claimed.iter().map(|claimed| claimed.lease.clone()).collect()
}

pub async fn what_a_worker_holds_and_does_not_know_is_recovered(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(5).await;
        let claimed = scene.claim(5).await;
        assert_eq!(leases(&recover(&scene, &[]).await), leases(&claimed));
        let known: Vec<&Lease> = claimed[..2].iter().map(|claimed| &claimed.lease).collect();
        assert_eq!(leases(&recover(&scene, &known).await), leases(&claimed[2..]));
        assert_eq!(leases(&recover(&scene, &known).await), leases(&claimed[2..]), "an answer may be lost");
        let all: Vec<&Lease> = claimed.iter().map(|claimed| &claimed.lease).collect();
        assert!(recover(&scene, &all).await.is_empty());
    }
}

pub async fn a_recovered_job_is_extended_started_and_settled(subject: Subject) {
    for scene in subject.scenes() {
        let sent = job();
        scene.enqueue(sent.clone()).await;
        scene.claim_one().await;
        let found = recover(&scene, &[]).await.remove(0);
        assert_eq!((envelope(&found).attempts(), envelope(&found).bytes()), (0, &sent.envelope));
        let lease = [found.lease.clone()];
        assert_eq!(scene.extend(&lease).await, [Extended::Yes]);
        assert_eq!(scene.start(&lease).await, [Verdict::Accepted]);
        scene.settle(&found, done()).await;
        assert!(recover(&scene, &[]).await.is_empty());
        scene.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_held_job_is_recovered_too(subject: Subject) {
    let scene = subject.scene();
    scene.enqueue_many(2).await;
    let mut claimed = scene.claim_with(2, 1, SHORT).await;
    while claimed.len() < 2 {
        claimed.extend(scene.claim_with(1, 0, SHORT).await);
    }
    assert_eq!(leases(&recover(&scene, &[]).await), leases(&claimed));
}

pub async fn a_worker_recovers_its_own_jobs_of_one_queue_only(subject: Subject) {
    for scene in subject.scenes() {
        let elsewhere = subject.scene_on("elsewhere", scene.queue.guarantee);
        let mut other = scene.clone();
        other.worker = HolderId::from_process("other", 1, 0);
        for scene in [&scene, &other, &elsewhere] {
            scene.enqueue(job()).await;
            scene.claim_one().await;
        }
        for scene in [&scene, &other, &elsewhere] {
            assert_eq!(recover(scene, &[]).await.len(), 1);
        }
    }
}

pub async fn what_was_rescued_is_not_recovered(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    scene.enqueue(job()).await;
    scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    assert!(recover(&scene, &[]).await.is_empty());
    scene.assert_counts([1, 0, 0, 0]).await;
}

pub async fn nothing_is_recovered_from_a_queue_that_is_not_there(subject: Subject) {
    for scene in subject.scenes() {
        assert!(recover(&scene, &[]).await.is_empty());
    }
}

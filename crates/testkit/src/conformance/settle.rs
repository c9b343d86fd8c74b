//! Ending claims: once, and only by whoever holds the lease.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::job::JobState;
use tidemill_core::lease::{Lease, Token};
use tidemill_core::settle::{Change, Outcome, Settlement};
use tidemill_core::store::{Claimed, NewJob, Verdict};

use super::scene::{LONG, SHORT, Traits, dead, done, envelope, job, retry};
use super::{Scene, Subject};

fn ways_to_end() -> [Outcome; 6] {
    let discard = Outcome::Discard("not wanted".to_owned());
    [done(), retry(Duration::ZERO), retry(LONG), discard, dead("bad"), Outcome::HandedBack]
}

pub async fn a_finished_job_is_gone(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(job()).await;
        scene.settle(&scene.claim_one().await, done()).await;
        assert_eq!(scene.state(&id).await, None);
        scene.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_second_settlement_has_no_effect(subject: Subject) {
    for scene in subject.scenes() {
        for first in ways_to_end() {
            let id = scene.enqueue(job()).await;
            let claimed = scene.claim_one().await;
            scene.settle(&claimed, first).await;
            let before = scene.state(&id).await;
            for second in ways_to_end() {
                assert_eq!(scene.try_settle(&claimed, second).await, Verdict::LeaseLost);
                assert_eq!(scene.state(&id).await, before);
            }
            scene.store.purge(&scene.queue).await.unwrap();
        }
    }
}

pub async fn two_settlements_of_one_lease_in_one_batch_are_one(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(job()).await;
        let claimed = scene.claim_one().await;
        let both = [scene.settlement(&claimed, dead("bad")), scene.settlement(&claimed, done())];
        assert_eq!(scene.store.settle(&both).await.unwrap(), [Verdict::Accepted, Verdict::LeaseLost]);
        assert_eq!(scene.state(&id).await, Some(JobState::Dead));
    }
}

pub async fn an_untracked_job_is_given_up_once(subject: Subject) {
    for scene in subject.scenes() {
        // The second of each is the repeat of a settlement whose answer was lost.
        let jobs: Vec<NewJob> = (0..3).map(|_| Traits::default().untracked()).collect();
        scene.enqueue_batch(jobs).await.unwrap();
        let claimed = scene.claim(3).await;
        let handed_back = |claimed: &Claimed| scene.settlement(claimed, Outcome::HandedBack);
        let all: Vec<Settlement> = claimed.iter().map(handed_back).collect();
        assert_eq!(scene.store.settle(&all).await.unwrap(), [Verdict::Accepted; 3]);
        assert_eq!(scene.store.settle(&all).await.unwrap(), [Verdict::LeaseLost; 3]);
        scene.assert_counts([3, 0, 0, 0]).await;

        let again = scene.claim(3).await;
        let late: Vec<Verdict> = scene.store.settle(&all).await.unwrap();
        assert_eq!(late, [Verdict::LeaseLost; 3], "of claims that have ended");
        let buried = |claimed: &Claimed| scene.settlement(claimed, dead("bad"));
        let all: Vec<Settlement> = again.iter().map(buried).collect();
        assert_eq!(scene.store.settle(&all).await.unwrap(), [Verdict::Accepted; 3]);
        assert_eq!(scene.store.settle(&all).await.unwrap(), [Verdict::LeaseLost; 3]);
        scene.assert_counts([0, 0, 0, 3]).await;
    }
}

pub async fn a_wrong_token_has_no_effect(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(job()).await;
        let claimed = scene.claim_one().await;
        for token in [claimed.lease.token.0 + 1, claimed.lease.token.0 - 1].map(Token) {
            let lease = Lease { token, ..claimed.lease.clone() };
            for outcome in ways_to_end() {
                let wrong = Claimed { lease: lease.clone(), ..claimed.clone() };
                assert_eq!(scene.try_settle(&wrong, outcome).await, Verdict::LeaseLost);
            }
        }
        assert_eq!(scene.state(&id).await, Some(JobState::Running));
        scene.settle(&claimed, done()).await;
    }
}

pub async fn a_late_settlement_has_no_effect_on_the_next_holder(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    let late = scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    let other = scene.through(subject.other().await).leasing(LONG);
    let now = other.claim_one().await;
    for outcome in ways_to_end() {
        assert_eq!(scene.try_settle(&late, outcome).await, Verdict::LeaseLost);
        assert_eq!(scene.state(&id).await, Some(JobState::Running));
    }
    other.settle(&now, done()).await;
    assert_eq!(scene.state(&id).await, None);
}

pub async fn a_late_settlement_has_no_effect_on_a_rescued_job_that_waits(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    let late = scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    assert_eq!(scene.try_settle(&late, done()).await, Verdict::LeaseLost);
    assert_eq!(scene.state(&id).await, Some(JobState::Ready));
    scene.claim(1).await;
}

pub async fn an_expired_lease_that_nobody_rescued_can_still_be_settled(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    scene.expire(1).await;
    scene.settle(&claimed, done()).await;
    assert_eq!(scene.state(&id).await, None);
    assert_eq!(scene.rescue().await, 0);
}

pub async fn each_settlement_of_a_batch_stands_for_itself(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(30).await;
        let claimed = scene.claim(30).await;
        for gone in claimed.iter().step_by(4) {
            scene.settle(gone, done()).await;
        }
        let outcomes = ways_to_end().into_iter().cycle();
        let batch: Vec<Settlement> =
            claimed.iter().zip(outcomes).map(|(claimed, outcome)| scene.settlement(claimed, outcome)).collect();
        let expected: Vec<_> = (0..30)
            .map(|index| if index % 4 == 0 { Verdict::LeaseLost } else { Verdict::Accepted })
            .collect();
        assert_eq!(scene.store.settle(&batch).await.unwrap(), expected);
        // Of the 22 that were left: retried at once or handed back 8, later 4, dead 3; see `ways_to_end`.
        let left = |way: usize| (0..30).filter(|index| index % 6 == way && index % 4 != 0).count() as u64;
        scene.assert_counts([left(1) + left(5), left(2), 0, left(4)]).await;
    }
}

pub async fn nothing_to_settle_is_no_error(subject: Subject) {
    let scene = subject.scene();
    assert!(scene.store.settle(&[]).await.unwrap().is_empty());
    assert!(scene.store.rescue(&[]).await.unwrap().is_empty());
}

pub async fn the_output_is_kept_in_the_record(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await;
        let output = Bytes::from_static("{\"ü\":\"\\u0000🌊\"}".as_bytes());
        scene.settle(&scene.claim_one().await, Outcome::Done(output.clone())).await;
        let info = scene.get(&id).await.unwrap();
        let record = info.record.unwrap();
        assert_eq!((info.state, record.state), (JobState::Done, JobState::Done));
        assert_eq!((record.job, record.output, record.error), (id, output, None));
    }
}

pub async fn a_discarded_job_says_why(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await;
        scene.settle(&scene.claim_one().await, Outcome::Discard("not wanted".to_owned())).await;
        let record = scene.get(&id).await.unwrap().record.unwrap();
        assert_eq!((record.state, record.error.as_deref()), (JobState::Cancelled, Some("not wanted")));
    }
}

pub async fn a_held_job_is_handed_back_untouched(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        let held = scene.claim_with(1, 0, Duration::from_secs(5)).await.remove(0);
        scene.settle(&held, Outcome::HandedBack).await;
        assert_eq!(envelope(&scene.claim_one().await).bytes(), &job.envelope);
    }
}

/// Enqueues jobs whose results are kept, and claims them in one batch.
async fn kept(scene: &Scene, count: usize) -> Vec<Claimed> {
    for _ in 0..count {
        scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await;
    }
    scene.claim(count).await
}

/// Asserts that jobs have ended and left their results.
async fn assert_done(scene: &Scene, jobs: &[Claimed]) {
    for job in jobs {
        let info = scene.get(&job.lease.job).await.expect("the result is kept");
        assert_eq!(info.state, JobState::Done);
        assert_eq!(info.record.expect("a record").output, "42");
    }
}

pub async fn a_time_without_end_does_no_harm_to_the_rest_of_its_batch(subject: Subject) {
    for scene in subject.scenes() {
        let claimed = kept(&scene, 4).await;
        let mut batch: Vec<_> = claimed.iter().map(|job| scene.settlement(job, done())).collect();
        let Change::Finish(Some(record)) = &mut batch[1].change else { panic!("{:?}", batch[1]) };
        record.keep = Duration::MAX;
        assert_eq!(scene.store.settle(&batch).await.unwrap(), [Verdict::Accepted; 4]);
        assert_done(&scene, &claimed).await;

        let claimed = kept(&scene, 3).await;
        let batch = [
            scene.settlement(&claimed[0], done()),
            scene.settlement(&claimed[1], Outcome::Snooze(Duration::MAX)),
            scene.settlement(&claimed[2], done()),
        ];
        assert_eq!(scene.store.settle(&batch).await.unwrap(), [Verdict::Accepted; 3]);
        assert_done(&scene, &[claimed[0].clone(), claimed[2].clone()]).await;
        assert_eq!(scene.state(&claimed[1].lease.job).await, Some(JobState::Scheduled));
        scene.store.purge(&scene.queue).await.unwrap();
    }
}

pub async fn a_foreign_envelope_with_an_endless_time_harms_no_other_job(subject: Subject) {
    for scene in subject.scenes() {
        let mut foreign = job();
        let (id, most) = (&foreign.id, u64::MAX);
        foreign.envelope = format!(
            r#"{{"job_id":"{id}","task_type":"t","keep_result_ms":{most},"timeout_ms":{most},
                "heartbeat_ms":{most},"backoff_ms":[{most},{most},{most}]}}"#
        )
        .into();
        scene.enqueue(foreign).await;
        let mut claimed = kept(&scene, 2).await;
        claimed.extend(scene.claim(1).await);
        let batch: Vec<_> = claimed.iter().map(|job| scene.settlement(job, done())).collect();
        assert_eq!(scene.store.settle(&batch).await.unwrap(), [Verdict::Accepted; 3]);
        assert_done(&scene, &claimed).await;
    }
}

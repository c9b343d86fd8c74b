//! Settlements: once, and only by the holder of the lease.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::job::JobState;
use tidemill_core::lease::{Lease, Token};
use tidemill_core::settle::{Change, Outcome, Settlement};
use tidemill_core::store::{SettleParams, Claimed, NewJob, Verdict};

use super::harness::{LONG, SHORT, JobSpec, dead, done, envelope, job, retry};
use super::{QueueHarness, StoreUnderTest};

fn ways_to_end() -> [Outcome; 6] {
    let discard = Outcome::Discard("not wanted".to_owned());
    [done(), retry(Duration::ZERO), retry(LONG), discard, dead("bad"), Outcome::HandedBack]
}

pub async fn a_finished_job_is_gone(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        harness.settle(&harness.claim_one().await, done()).await;
        assert_eq!(harness.state(&id).await, None);
        harness.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_second_settlement_has_no_effect(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for first in ways_to_end() {
            let id = harness.enqueue(job()).await;
            let claimed = harness.claim_one().await;
            harness.settle(&claimed, first).await;
            let before = harness.state(&id).await;
            for second in ways_to_end() {
                assert_eq!(harness.try_settle(&claimed, second).await, Verdict::LeaseLost);
                assert_eq!(harness.state(&id).await, before);
            }
            harness.store.purge(&harness.queue).await.unwrap();
        }
    }
}

pub async fn two_settlements_of_one_lease_in_one_batch_are_one(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        let claimed = harness.claim_one().await;
        let both = [harness.settlement(&claimed, dead("bad")), harness.settlement(&claimed, done())];
        assert_eq!(harness.store.settle(SettleParams::current(&both)).await.unwrap(), [Verdict::Accepted, Verdict::LeaseLost]);
        assert_eq!(harness.state(&id).await, Some(JobState::Dead));
    }
}

pub async fn an_untracked_job_is_given_up_once(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        // The second of each is the repeat of a settlement whose answer was lost.
        let jobs: Vec<NewJob> = (0..3).map(|_| JobSpec::default().untracked()).collect();
        harness.enqueue_batch(jobs).await.unwrap();
        let claimed = harness.claim(3).await;
        let handed_back = |claimed: &Claimed| harness.settlement(claimed, Outcome::HandedBack);
        let all: Vec<Settlement> = claimed.iter().map(handed_back).collect();
        assert_eq!(harness.store.settle(SettleParams::current(&all)).await.unwrap(), [Verdict::Accepted; 3]);
        assert_eq!(harness.store.settle(SettleParams::current(&all)).await.unwrap(), [Verdict::LeaseLost; 3]);
        harness.assert_counts([3, 0, 0, 0]).await;

        let again = harness.claim(3).await;
        let late: Vec<Verdict> = harness.store.settle(SettleParams::current(&all)).await.unwrap();
        assert_eq!(late, [Verdict::LeaseLost; 3], "of claims that have ended");
        let buried = |claimed: &Claimed| harness.settlement(claimed, dead("bad"));
        let all: Vec<Settlement> = again.iter().map(buried).collect();
        assert_eq!(harness.store.settle(SettleParams::current(&all)).await.unwrap(), [Verdict::Accepted; 3]);
        assert_eq!(harness.store.settle(SettleParams::current(&all)).await.unwrap(), [Verdict::LeaseLost; 3]);
        harness.assert_counts([0, 0, 0, 3]).await;
    }
}

pub async fn a_wrong_token_has_no_effect(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        let claimed = harness.claim_one().await;
        for token in [claimed.lease.token.0 + 1, claimed.lease.token.0 - 1].map(Token) {
            let lease = Lease { token, ..claimed.lease.clone() };
            for outcome in ways_to_end() {
                let wrong = Claimed { lease: lease.clone(), ..claimed.clone() };
                assert_eq!(harness.try_settle(&wrong, outcome).await, Verdict::LeaseLost);
            }
        }
        assert_eq!(harness.state(&id).await, Some(JobState::Running));
        harness.settle(&claimed, done()).await;
    }
}

pub async fn a_late_settlement_has_no_effect_on_the_next_holder(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    let late = harness.claim_one().await;
    harness.expire_and_rescue(1).await;
    let other = harness.with_store(subject.other_connection().await).with_lease(LONG);
    let now = other.claim_one().await;
    for outcome in ways_to_end() {
        assert_eq!(harness.try_settle(&late, outcome).await, Verdict::LeaseLost);
        assert_eq!(harness.state(&id).await, Some(JobState::Running));
    }
    other.settle(&now, done()).await;
    assert_eq!(harness.state(&id).await, None);
}

pub async fn a_late_settlement_has_no_effect_on_a_rescued_job_that_waits(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    let late = harness.claim_one().await;
    harness.expire_and_rescue(1).await;
    assert_eq!(harness.try_settle(&late, done()).await, Verdict::LeaseLost);
    assert_eq!(harness.state(&id).await, Some(JobState::Ready));
    harness.claim(1).await;
}

pub async fn an_expired_lease_that_nobody_rescued_can_still_be_settled(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(job()).await;
    let claimed = harness.claim_one().await;
    harness.expire(1).await;
    harness.settle(&claimed, done()).await;
    assert_eq!(harness.state(&id).await, None);
    assert_eq!(harness.rescue().await, 0);
}

pub async fn each_settlement_of_a_batch_stands_for_itself(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(30).await;
        let claimed = harness.claim(30).await;
        for gone in claimed.iter().step_by(4) {
            harness.settle(gone, done()).await;
        }
        let outcomes = ways_to_end().into_iter().cycle();
        let batch: Vec<Settlement> =
            claimed.iter().zip(outcomes).map(|(claimed, outcome)| harness.settlement(claimed, outcome)).collect();
        let expected: Vec<_> = (0..30)
            .map(|index| if index % 4 == 0 { Verdict::LeaseLost } else { Verdict::Accepted })
            .collect();
        assert_eq!(harness.store.settle(SettleParams::current(&batch)).await.unwrap(), expected);
        // Of the 22 remaining: retried at once or handed back 8, later 4, dead 3; see
        // `ways_to_end`.
        let left = |way: usize| (0..30).filter(|index| index % 6 == way && index % 4 != 0).count() as u64;
        harness.assert_counts([left(1) + left(5), left(2), 0, left(4)]).await;
    }
}

pub async fn nothing_to_settle_is_no_error(subject: StoreUnderTest) {
    let harness = subject.harness();
    assert!(harness.store.settle(SettleParams::current(&[])).await.unwrap().is_empty());
    assert!(harness.store.settle(SettleParams::expired(&[])).await.unwrap().is_empty());
}

pub async fn the_output_is_kept_in_the_record(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(JobSpec { keep: Some(LONG), ..JobSpec::default() }.job()).await;
        let output = Bytes::from_static("{\"ü\":\"\\u0000🌊\"}".as_bytes());
        harness.settle(&harness.claim_one().await, Outcome::Done(output.clone())).await;
        let info = harness.get(&id).await.unwrap();
        let record = info.record.unwrap();
        assert_eq!((info.state, record.state), (JobState::Done, JobState::Done));
        assert_eq!((record.job, record.output, record.error), (id, output, None));
    }
}

pub async fn a_discarded_job_says_why(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(JobSpec { keep: Some(LONG), ..JobSpec::default() }.job()).await;
        harness.settle(&harness.claim_one().await, Outcome::Discard("not wanted".to_owned())).await;
        let record = harness.get(&id).await.unwrap().record.unwrap();
        assert_eq!((record.state, record.error.as_deref()), (JobState::Cancelled, Some("not wanted")));
    }
}

pub async fn a_held_job_is_handed_back_untouched(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        let held = harness.claim_with(1, 0, Duration::from_secs(5)).await.remove(0);
        harness.settle(&held, Outcome::HandedBack).await;
        assert_eq!(envelope(&harness.claim_one().await).bytes(), &job.envelope);
    }
}

/// Enqueues jobs whose results are kept, and claims them in one batch.
async fn kept(harness: &QueueHarness, count: usize) -> Vec<Claimed> {
    for _ in 0..count {
        harness.enqueue(JobSpec { keep: Some(LONG), ..JobSpec::default() }.job()).await;
    }
    harness.claim(count).await
}

/// Asserts that jobs have ended and left their results.
async fn assert_done(harness: &QueueHarness, jobs: &[Claimed]) {
    for job in jobs {
        let info = harness.get(&job.lease.job).await.expect("the result is kept");
        assert_eq!(info.state, JobState::Done);
        assert_eq!(info.record.expect("a record").output, "42");
    }
}

pub async fn a_time_without_end_does_no_harm_to_the_rest_of_its_batch(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let claimed = kept(&harness, 4).await;
        let mut batch: Vec<_> = claimed.iter().map(|job| harness.settlement(job, done())).collect();
        let Change::Finish(Some(record)) = &mut batch[1].change else { panic!("{:?}", batch[1]) };
        record.keep = Duration::MAX;
        assert_eq!(harness.store.settle(SettleParams::current(&batch)).await.unwrap(), [Verdict::Accepted; 4]);
        assert_done(&harness, &claimed).await;

        let claimed = kept(&harness, 3).await;
        let batch = [
            harness.settlement(&claimed[0], done()),
            harness.settlement(&claimed[1], Outcome::Snooze(Duration::MAX)),
            harness.settlement(&claimed[2], done()),
        ];
        assert_eq!(harness.store.settle(SettleParams::current(&batch)).await.unwrap(), [Verdict::Accepted; 3]);
        assert_done(&harness, &[claimed[0].clone(), claimed[2].clone()]).await;
        assert_eq!(harness.state(&claimed[1].lease.job).await, Some(JobState::Scheduled));
        harness.store.purge(&harness.queue).await.unwrap();
    }
}

pub async fn a_foreign_envelope_with_an_endless_time_harms_no_other_job(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let mut foreign = job();
        let (id, most) = (&foreign.id, u64::MAX);
        foreign.envelope = format!(
            r#"{{"job_id":"{id}","task_type":"t","keep_result_ms":{most},"timeout_ms":{most},
                "heartbeat_ms":{most},"backoff_ms":[{most},{most},{most}]}}"#
        )
        .into();
        harness.enqueue(foreign).await;
        let mut claimed = kept(&harness, 2).await;
        claimed.extend(harness.claim(1).await);
        let batch: Vec<_> = claimed.iter().map(|job| harness.settlement(job, done())).collect();
        assert_eq!(harness.store.settle(SettleParams::current(&batch)).await.unwrap(), [Verdict::Accepted; 3]);
        assert_done(&harness, &claimed).await;
    }
}

//! Dead letters: kept whole, listed, redriven, dropped.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tidemill_core::chain::JobLinks;
use tidemill_core::dead_letter::{DeadLetter, DeathReason};
use tidemill_core::job::JobState;
use tidemill_core::name::{JobId, Kind, Queue};
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead, redrive, revived_envelope};
use tidemill_core::settle::{Settlement, decide_malformed};
use tidemill_core::store::{SettleParams, Due, NewJob, RedriveParams, RedriveItem, Store, Verdict};

use super::harness::{JobSpec, dead, done, envelope, job, until};
use super::{QueueHarness, StoreUnderTest};

/// A way to redrive a job.
async fn revival(harness: &QueueHarness, job: &JobId) -> RedriveItem {
    let letter = harness.letter(job).await;
    let envelope = revived_envelope(&letter).unwrap();
    RedriveItem { job: letter.job, letter: letter.bytes, envelope }
}

async fn bring_back(harness: &QueueHarness, letters: DeadLetterFilter) -> u64 {
    redrive(&*harness.store, &harness.queue, &letters).await.unwrap()
}

pub async fn a_dead_job_is_kept_with_its_reason_time_and_error(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let before = harness.store.clock().now();
        let id = harness.bury(&JobSpec::default(), "no_such_address").await;
        let letter = harness.letter(&id).await;
        assert_eq!(letter.job, id);
        assert_eq!(letter.reason, DeathReason::Other("no_such_address".to_owned()));
        assert_eq!(letter.last_error.as_deref(), Some("error of no_such_address"));
        assert!(letter.at >= before, "{} then {}", before, letter.at);
        let text = std::str::from_utf8(&letter.bytes).unwrap();
        assert!(["\"dlq_ts\":", "\"dlq_reason\":", "\"last_error\":"].iter().all(|field| text.contains(field)));
        harness.assert_counts([0, 0, 0, 1]).await;
        harness.claim_nothing().await;
    }
}

pub async fn foreign_fields_survive_death_and_return(subject: StoreUnderTest) {
    let foreign = r#""x-trace":[1.50, {"ü" : null}]"#;
    for harness in subject.harnesses() {
        let id = JobId::generate();
        let bytes = Bytes::from(format!(r#"{{"job_id":"{id}",{foreign},"task_type":"test","payload":[0.10]}}"#));
        harness.enqueue(NewJob { id: id.clone(), envelope: bytes, due: Due::Now, tracked: true, generated_id: false, links: JobLinks::default() }).await;
        harness.settle(&harness.claim_one().await, dead("bad")).await;
        assert!(std::str::from_utf8(&harness.letter(&id).await.bytes).unwrap().contains(foreign));
        assert_eq!(bring_back(&harness, DeadLetterFilter::default()).await, 1);
        let claimed = harness.claim_one().await;
        assert!(std::str::from_utf8(envelope(&claimed).bytes()).unwrap().contains(foreign));
        assert_eq!(envelope(&claimed).payload(), b"[0.10]");
    }
}

pub async fn a_letter_is_brought_back_as_if_new(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.bury(&JobSpec { max_attempts: 1, ..JobSpec::default() }, "bad").await;
        assert_eq!(bring_back(&harness, DeadLetterFilter { jobs: vec![id.clone()], ..DeadLetterFilter::default() }).await, 1);
        harness.assert_counts([1, 0, 0, 0]).await;
        let claimed = harness.claim_one().await;
        assert_eq!((&claimed.lease.job, envelope(&claimed).attempts()), (&id, 0));
        let text = std::str::from_utf8(envelope(&claimed).bytes()).unwrap();
        assert!(!text.contains("dlq_") && !text.contains("last_error"), "{text}");
        harness.settle(&claimed, done()).await;
        assert_eq!(harness.state(&id).await, None);
    }
}

pub async fn a_letter_that_is_gone_is_skipped(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let (here, gone) = (harness.bury(&JobSpec::default(), "bad").await, job());
        let of_gone = RedriveItem { job: gone.id.clone(), letter: gone.envelope.clone(), envelope: gone.envelope };
        let letters = [of_gone, revival(&harness, &here).await];
        let both = RedriveParams { queue: &harness.queue, letters: &letters };
        assert_eq!(harness.store.redrive(both).await.unwrap(), 1);
        let again = RedriveParams { queue: &harness.queue, letters: &letters };
        assert_eq!(harness.store.redrive(again).await.unwrap(), 0);
        assert_eq!(harness.state(&gone.id).await, None);
        harness.assert_counts([1, 0, 0, 0]).await;
    }
}

/// A repeated call may come after the job has run and died again.
pub async fn a_job_that_has_died_again_is_not_brought_back_by_its_old_letter(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.bury(&JobSpec::default(), "bad").await;
        let letters = [revival(&harness, &id).await];
        let first = RedriveParams { queue: &harness.queue, letters: &letters };
        assert_eq!(harness.store.redrive(first).await.unwrap(), 1);
        harness.settle(&harness.claim_one().await, dead("worse")).await;
        let again = RedriveParams { queue: &harness.queue, letters: &letters };
        assert_eq!(harness.store.redrive(again).await.unwrap(), 0);
        harness.assert_counts([0, 0, 0, 1]).await;
        assert_eq!(bring_back(&harness, DeadLetterFilter::default()).await, 1);
    }
}

pub async fn letters_are_brought_back_by_kind_reason_and_error(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let (mail, page) = (JobSpec { kind: "mail", ..JobSpec::default() }, JobSpec { kind: "page", ..JobSpec::default() });
        for (traits, reason) in [(&mail, "bounced"), (&mail, "blocked"), (&page, "blocked"), (&page, "lost")] {
            harness.bury(traits, reason).await;
        }
        let by_kind = DeadLetterFilter { kind: Some(Kind::new("page").unwrap()), reason: Some("lost".into()), ..DeadLetterFilter::default() };
        assert_eq!(bring_back(&harness, by_kind).await, 1);
        let by_error = DeadLetterFilter { error: Some("of blocked".into()), ..DeadLetterFilter::default() };
        assert_eq!(bring_back(&harness, by_error).await, 2);
        harness.assert_counts([3, 0, 0, 1]).await;
        let by_reason = DeadLetterFilter { reason: Some("bounced".into()), ..DeadLetterFilter::default() };
        assert_eq!(drop_dead(&*harness.store, &harness.queue, &by_reason).await.unwrap(), 1);
        harness.assert_counts([3, 0, 0, 0]).await;
    }
}

/// Adds, claims and buries many jobs at once.
async fn bury_many(harness: &QueueHarness, count: usize) -> HashSet<JobId> {
    let ids = harness.enqueue_many(count).await;
    let claimed = harness.claim(count).await;
    let batch: Vec<_> = claimed.iter().map(|claimed| harness.settlement(claimed, dead("bad"))).collect();
    assert_eq!(harness.store.settle(SettleParams::current(&batch)).await.unwrap(), vec![Verdict::Accepted; count]);
    ids.into_iter().collect()
}

pub async fn hundreds_of_letters_are_brought_back_page_by_page(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let ids = bury_many(&harness, 600).await;
        assert_eq!(bring_back(&harness, DeadLetterFilter::default()).await, 600);
        harness.assert_counts([600, 0, 0, 0]).await;
        let given: HashSet<_> = harness.claim(600).await.into_iter().map(|claimed| claimed.lease.job).collect();
        assert_eq!(given, ids);
    }
}

pub async fn hundreds_of_letters_are_dropped_page_by_page(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        bury_many(&harness, 600).await;
        assert_eq!(drop_dead(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap(), 600);
        harness.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_dropped_letter_is_gone_for_good(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let (one, other) = (harness.bury(&JobSpec::default(), "bad").await, harness.bury(&JobSpec::default(), "bad").await);
        let jobs = [one.clone(), JobId::generate()];
        assert_eq!(harness.store.drop_dead(&harness.queue, &jobs).await.unwrap(), 1);
        assert_eq!(harness.store.drop_dead(&harness.queue, &jobs).await.unwrap(), 0);
        assert_eq!((harness.state(&one).await, harness.state(&other).await), (None, Some(JobState::Dead)));
        harness.enqueue(JobSpec::default().job_with_id(one)).await;
    }
}

pub async fn a_letter_is_brought_back_once_by_many(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        bury_many(&harness, 50).await;
        let everywhere = [harness.store.clone(), subject.other_connection().await, subject.other_connection().await];
        let tasks = everywhere.map(|store| tokio::spawn(bring_back_all(store, harness.queue.clone())));
        let mut moved = 0;
        for task in tasks {
            moved += task.await.unwrap();
        }
        assert_eq!(moved, 50);
        harness.claim(50).await;
        harness.claim_nothing().await;
    }
}

async fn bring_back_all(store: std::sync::Arc<dyn Store>, queue: Queue) -> u64 {
    redrive(&*store, &queue, &DeadLetterFilter::default()).await.unwrap()
}

pub async fn a_letter_of_another_queue_is_left_alone(subject: StoreUnderTest) {
    let [harness, other] = subject.harnesses();
    let id = harness.bury(&JobSpec::default(), "bad").await;
    assert_eq!(bring_back(&other, DeadLetterFilter { jobs: vec![id.clone()], ..DeadLetterFilter::default() }).await, 0);
    assert_eq!(bring_back(&other, DeadLetterFilter::default()).await, 0);
    assert_eq!(other.store.drop_dead(&other.queue, std::slice::from_ref(&id)).await.unwrap(), 0);
    assert_eq!(harness.state(&id).await, Some(JobState::Dead));
}

pub async fn a_letter_that_is_brought_back_wakes_a_waiting_claim(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.bury(&JobSpec::default(), "bad").await;
        let other = harness.with_store(subject.other_connection().await);
        let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        bring_back(&harness, DeadLetterFilter::default()).await;
        let given = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it is woken").unwrap();
        assert_eq!(given[0].lease.job, id);
    }
}

pub async fn bytes_that_are_no_envelope_are_kept_and_disturb_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let bytes = Bytes::from_static(b"\xff\x00{ not an envelope");
        harness.enqueue(NewJob { envelope: bytes.clone(), ..job() }).await;
        let sound = harness.enqueue(job()).await;
        let claimed = harness.claim(2).await;
        let bad = claimed.iter().find(|claimed| claimed.lease.job != sound).unwrap();
        let (raw, error) = bad.body.as_ref().unwrap_err();
        assert_eq!(raw, &bytes);
        let change = decide_malformed(&bad.lease, raw, error, harness.store.clock().now());
        let settlement = Settlement { lease: bad.lease.clone(), change };
        assert_eq!(harness.store.settle(SettleParams::current(&[settlement])).await.unwrap(), [Verdict::Accepted]);
        let listed = until("the letter", || async { harness.list(JobState::Dead, 10).await.pop() }).await;
        let letter = DeadLetter::read(listed.data).unwrap();
        assert_eq!((letter.job, letter.reason), (bad.lease.job.clone(), DeathReason::InvalidEnvelope));
        assert_eq!(bring_back(&harness, DeadLetterFilter::default()).await, 0);
        harness.assert_counts([0, 0, 1, 1]).await;
    }
}

/// The one byte that is not UTF-8 is in a field that no store and no worker reads.
pub async fn an_envelope_that_cannot_be_edited_is_no_envelope(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let (sound, tail) = (job(), b",\"meta\":{\"name\":\"Jos\xe9\"}}");
        let text = String::from_utf8(sound.envelope.to_vec()).unwrap();
        let end = text.find(",\"meta\"").unwrap();
        let bytes = Bytes::from([&sound.envelope[..end], &tail[..]].concat());
        harness.enqueue(NewJob { envelope: bytes.clone(), ..sound }).await;
        let claimed = harness.claim_one().await;
        let (raw, error) = claimed.body.as_ref().unwrap_err();
        assert_eq!(raw, &bytes);
        let change = decide_malformed(&claimed.lease, raw, error, harness.store.clock().now());
        let settlement = Settlement { lease: claimed.lease.clone(), change };
        assert_eq!(harness.store.settle(SettleParams::current(&[settlement])).await.unwrap(), [Verdict::Accepted]);
        let listed = until("the letter", || async { harness.list(JobState::Dead, 10).await.pop() }).await;
        let letter: serde_json::Value = serde_json::from_slice(&listed.data).unwrap();
        let kept = STANDARD.decode(letter["raw_base64"].as_str().unwrap()).unwrap();
        assert_eq!(kept, bytes, "the letter has the bytes");
        harness.assert_counts([0, 0, 0, 1]).await;
    }
}

pub async fn letters_are_brought_back_once_though_jobs_die_again_at_once(subject: StoreUnderTest) {
    const LETTERS: usize = 600;
    for harness in subject.harnesses() {
        harness.enqueue_many(LETTERS).await;
        let bury_all = async |count: usize| {
            let mut buried = 0;
            while buried < count {
                let claimed = harness.claim_with(200, 200, Duration::from_millis(20)).await;
                let ends: Vec<_> = claimed.iter().map(|job| harness.settlement(job, dead("bad"))).collect();
                harness.store.settle(SettleParams::current(&ends)).await.unwrap();
                buried += claimed.len();
            }
        };
        bury_all(LETTERS).await;
        let letters = DeadLetterFilter::default();
        tokio::select! {
            moved = redrive(&*harness.store, &harness.queue, &letters) => {
                assert_eq!(moved.unwrap(), LETTERS as u64);
            }
            () = bury_all(usize::MAX) => {}
        }
    }
}

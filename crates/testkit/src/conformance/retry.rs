//! Retries: at once, later, with or without counting an attempt.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tidemill_core::chain::JobLinks;
use tidemill_core::dead_letter::DeathReason;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Due, NewJob};

use super::StoreUnderTest;
use super::harness::{LONG, JobSpec, done, envelope, job, retry};

pub async fn a_job_that_is_retried_at_once_is_ready(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        for attempt in 0..3 {
            let claimed = harness.claim_one().await;
            assert_eq!((&claimed.lease.job, envelope(&claimed).attempts()), (&id, attempt));
            harness.settle(&claimed, retry(Duration::ZERO)).await;
            harness.assert_counts([1, 0, 0, 0]).await;
        }
    }
}

pub async fn a_job_that_is_retried_later_is_scheduled(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        harness.settle(&harness.claim_one().await, retry(LONG)).await;
        harness.promote().await;
        harness.claim_nothing().await;
        let info = harness.get(&id).await.unwrap();
        assert_eq!(info.state, JobState::Scheduled);
        assert!(info.due.is_some());
        harness.assert_counts([0, 1, 0, 0]).await;
    }
}

pub async fn a_retry_is_never_early(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue(job()).await;
        let claimed = harness.claim_one().await;
        let begun = Instant::now();
        harness.settle(&claimed, retry(Duration::from_millis(300))).await;
        let again = harness.claim_when_due(1).await.remove(0);
        assert!(begun.elapsed() >= Duration::from_millis(298), "{:?}", begun.elapsed());
        assert_eq!(envelope(&again).attempts(), 1);
    }
}

pub async fn a_retry_wakes_a_waiting_claim(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        let claimed = harness.claim_one().await;
        let other = harness.with_store(subject.other_connection().await);
        let waiting = tokio::spawn(async move { other.claim_with(1, 1, Duration::from_secs(60)).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        harness.settle(&claimed, retry(Duration::ZERO)).await;
        let given = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it is woken").unwrap();
        assert_eq!(given[0].lease.job, id);
    }
}

pub async fn snoozing_and_handing_back_count_no_attempt(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        for outcome in [Outcome::HandedBack, Outcome::Snooze(Duration::from_millis(20))] {
            harness.settle(&harness.claim_when_due(1).await[0], outcome).await;
        }
        let claimed = harness.claim_when_due(1).await.remove(0);
        assert_eq!(envelope(&claimed).bytes(), &job.envelope);
    }
}

pub async fn the_last_failure_leads_to_the_dead_letters(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(JobSpec { max_attempts: 3, ..JobSpec::default() }.job()).await;
        for _ in 0..3 {
            harness.settle(&harness.claim_one().await, retry(Duration::ZERO)).await;
        }
        harness.claim_nothing().await;
        let letter = harness.letter(&id).await;
        assert_eq!(letter.reason, DeathReason::MaxAttemptsExceeded);
        assert_eq!(letter.last_error.as_deref(), Some("it failed"));
        assert_eq!(letter.envelope().unwrap().attempts(), 3);
    }
}

pub async fn foreign_fields_survive_retries(subject: StoreUnderTest) {
    let foreign = r#""x-trace":[1.50, {"ü" : null}],"meta":{"tenant":"a"}"#;
    for harness in subject.harnesses() {
        let id = JobId::generate();
        let text = format!(r#"{{"job_id":"{id}","task_type":"test",{foreign},"payload":{{"n":1e3}}}}"#);
        let envelope_bytes = Bytes::from(text);
        harness.enqueue(NewJob { id, envelope: envelope_bytes, due: Due::Now, tracked: true, generated_id: false, links: JobLinks::default() }).await;
        for _ in 0..3 {
            harness.settle(&harness.claim_one().await, retry(Duration::ZERO)).await;
        }
        let claimed = harness.claim_one().await;
        let text = std::str::from_utf8(envelope(&claimed).bytes()).unwrap();
        assert!(text.contains(foreign) && text.contains(r#""payload":{"n":1e3}"#), "{text}");
        assert_eq!(envelope(&claimed).attempts(), 3);
        harness.settle(&claimed, done()).await;
    }
}

//! Enqueues: bytes are kept exactly, batches are atomic, and an id is one job.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::chain::JobLinks;
use tidemill_core::job::JobState;
use tidemill_core::name::{Guarantee, JobId};
use tidemill_core::store::{Due, Enqueued, NewJob};

use super::harness::{LONG, JobSpec, dead, done, envelope, job, retry};
use super::{QueueHarness, StoreUnderTest};

pub async fn a_job_is_given_out_to_the_letter(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        let claimed = harness.claim_one().await;
        assert_eq!(envelope(&claimed).bytes(), &job.envelope);
        assert_eq!((&claimed.lease.job, &claimed.lease.queue), (&job.id, &harness.queue));
    }
}

pub async fn an_acknowledged_job_is_there_for_every_other_connection(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        let elsewhere = harness.with_store(subject.other_connection().await);
        assert_eq!(elsewhere.state(&id).await, Some(JobState::Ready));
        assert_eq!(elsewhere.claim_one().await.lease.job, id);
    }
}

/// Enqueues a job again, as a client does whose first answer was lost, and expects no change.
async fn assert_exists(harness: &QueueHarness, job: &NewJob) {
    let again = job.clone();
    assert_eq!(harness.enqueue_again(again).await, Enqueued::Exists);
    harness.claim_nothing().await;
}

pub async fn the_same_id_is_one_job_while_it_waits(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        let again = job;
        assert_eq!(harness.enqueue_again(again).await, Enqueued::Exists);
        harness.claim(1).await;
        harness.claim_nothing().await;
    }
}

pub async fn the_same_id_is_one_job_while_it_is_scheduled(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = JobSpec { due: Due::In(LONG), ..JobSpec::default() }.job();
        harness.enqueue(job.clone()).await;
        assert_exists(&harness, &NewJob { due: Due::Now, ..job }).await;
        harness.assert_counts([0, 1, 0, 0]).await;
    }
}

pub async fn the_same_id_is_one_job_while_it_runs(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        let claimed = harness.claim_one().await;
        assert_exists(&harness, &job).await;
        harness.settle(&claimed, done()).await;
    }
}

pub async fn the_same_id_is_one_job_while_it_waits_for_its_next_attempt(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        harness.settle(&harness.claim_one().await, retry(LONG)).await;
        assert_exists(&harness, &job).await;
    }
}

pub async fn the_same_id_is_one_job_while_it_is_dead(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        harness.enqueue(job.clone()).await;
        harness.settle(&harness.claim_one().await, dead("bad")).await;
        assert_exists(&harness, &job).await;
    }
}

pub async fn the_same_id_is_one_job_while_its_record_is_kept(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = JobSpec { keep: Some(LONG), ..JobSpec::default() }.job();
        harness.enqueue(job.clone()).await;
        harness.settle(&harness.claim_one().await, done()).await;
        assert_exists(&harness, &job).await;
    }
}

pub async fn the_same_id_is_one_job_on_whatever_queue(subject: StoreUnderTest) {
    let (harness, other) = (subject.harness(), subject.harness_on("others", Guarantee::AtLeastOnce));
    let job = job();
    harness.enqueue(job.clone()).await;
    assert_exists(&other, &job).await;
    assert_exists(&subject.at_most_once_harness(), &job).await;
}

pub async fn the_same_id_twice_in_one_batch_is_one_job(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        let answers = harness.enqueue_batch(vec![job.clone(), job]).await.unwrap();
        assert_eq!(answers, [Enqueued::Created, Enqueued::Exists]);
        harness.claim(1).await;
        harness.claim_nothing().await;
    }
}

pub async fn an_id_is_free_again_when_its_job_is_gone(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = job();
        for _ in 0..3 {
            harness.enqueue(job.clone()).await;
            harness.settle(&harness.claim_one().await, done()).await;
        }
    }
}

pub async fn a_repeated_enqueue_changes_nothing_of_the_first(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let first = job();
        harness.enqueue(first.clone()).await;
        let other = JobSpec { payload: "\"other\"".to_owned(), due: Due::In(LONG), ..JobSpec::default() };
        let second = other.job_with_id(first.id.clone());
        assert_eq!(harness.enqueue_again(second).await, Enqueued::Exists);
        assert_eq!(envelope(&harness.claim_one().await).bytes(), &first.envelope);
    }
}

pub async fn answers_come_in_the_order_of_the_jobs(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let mut jobs: Vec<_> = (0..20).map(|_| job()).collect();
        let known: Vec<_> = jobs.iter().step_by(3).cloned().collect();
        harness.enqueue_batch(known.clone()).await.unwrap();
        jobs.reverse();
        let answers = harness.enqueue_batch(jobs.clone()).await.unwrap();
        for (job, answer) in jobs.iter().zip(answers) {
            let exists = known.iter().any(|known| known.id == job.id);
            assert_eq!(answer, if exists { Enqueued::Exists } else { Enqueued::Created });
        }
    }
}

pub async fn an_empty_batch_does_nothing(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        assert!(harness.enqueue_batch(Vec::new()).await.unwrap().is_empty());
        harness.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_batch_of_a_thousand_jobs_is_added_whole(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let mut ids = harness.enqueue_many(1000).await;
        harness.assert_counts([1000, 0, 0, 0]).await;
        let mut given: Vec<_> = harness.claim(1000).await.into_iter().map(|claimed| claimed.lease.job).collect();
        ids.sort();
        given.sort();
        assert_eq!(given, ids);
    }
}

pub async fn a_batch_may_mix_ready_and_delayed_jobs(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let later = JobSpec { due: Due::In(LONG), ..JobSpec::default() };
        let jobs = vec![later.job(), job(), later.job()];
        let ready = jobs[1].id.clone();
        harness.enqueue_batch(jobs).await.unwrap();
        harness.assert_counts([1, 2, 0, 0]).await;
        assert_eq!(harness.claim_one().await.lease.job, ready);
    }
}

pub async fn a_payload_of_a_mebibyte_survives(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let payload = format!("\"{}\"", "x".repeat((1 << 20) - 2));
        let job = JobSpec { payload, ..JobSpec::default() }.job();
        harness.enqueue(job.clone()).await;
        let claimed = harness.claim_one().await;
        assert!(envelope(&claimed).bytes() == &job.envelope);
        harness.settle(&claimed, done()).await;
    }
}

pub async fn text_in_every_spelling_survives(subject: StoreUnderTest) {
    let payload = "[ \"Ünïcödé 漢字 🌊 \\u0000\\ud83c\\udf0a \\\"\\\\\\/\\n\", 1.50e+2,\t-0, 12345678901234567890123 ]\r\n";
    for harness in subject.harnesses() {
        let job = JobSpec { payload: payload.trim_end().to_owned(), ..JobSpec::default() }.job();
        harness.enqueue(job.clone()).await;
        harness.settle(&harness.claim_one().await, dead("ünïcödé 🌊\u{0}")).await;
        let letter = harness.letter(&job.id).await;
        assert_eq!(letter.envelope().unwrap().payload(), payload.trim_end().as_bytes());
        assert_eq!(letter.reason.to_string(), "ünïcödé 🌊\u{0}");
    }
}

pub async fn an_id_may_hold_any_printable_character(subject: StoreUnderTest) {
    for (harness, id) in subject.harnesses().into_iter().zip([r#"a'b"c\d{e}%f_g:h*?[i]$1;--"#, r#"{x}}"'`~!@#^&()=+|<>,./"#]) {
        let id = JobId::new(id).unwrap();
        let quoted = id.as_str().replace('\\', r"\\").replace('"', "\\\"");
        let text = format!(r#"{{"job_id":"{quoted}","task_type":"test","keep_result_ms":30000}}"#);
        let job = NewJob { id: id.clone(), envelope: Bytes::from(text), due: Due::Now, tracked: true, generated_id: false, links: JobLinks::default() };
        harness.enqueue(job.clone()).await;
        let claimed = harness.claim_one().await;
        assert_eq!(claimed.lease.job, id);
        harness.settle(&claimed, done()).await;
        assert_eq!(harness.state(&id).await, Some(JobState::Done));
    }
}

pub async fn a_delay_of_a_century_is_kept(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let due = Due::In(Duration::from_secs(99 * 365 * 24 * 3600));
        let id = harness.enqueue(JobSpec { due, ..JobSpec::default() }.job()).await;
        harness.promote().await;
        assert_eq!(harness.state(&id).await, Some(JobState::Scheduled));
    }
}

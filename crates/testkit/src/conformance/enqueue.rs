//! Adding jobs: to the letter, all or none, and one job per id.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::chain::JobLinks;
use tidemill_core::job::JobState;
use tidemill_core::name::{Guarantee, JobId};
use tidemill_core::store::{Due, Enqueued, NewJob};

use super::scene::{LONG, Traits, dead, done, envelope, job, retry};
use super::{Scene, Subject};

pub async fn a_job_is_given_out_to_the_letter(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        let claimed = scene.claim_one().await;
        assert_eq!(envelope(&claimed).bytes(), &job.envelope);
        assert_eq!((&claimed.lease.job, &claimed.lease.queue), (&job.id, &scene.queue));
    }
}

pub async fn an_acknowledged_job_is_there_for_every_other_connection(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(job()).await;
        let elsewhere = scene.through(subject.other().await);
        assert_eq!(elsewhere.state(&id).await, Some(JobState::Ready));
        assert_eq!(elsewhere.claim_one().await.lease.job, id);
    }
}

/// Enqueues a job again, as a client does whose first answer was lost, and expects that nothing happens.
async fn assert_exists(scene: &Scene, job: &NewJob) {
    let again = job.clone();
    assert_eq!(scene.enqueue_again(again).await, Enqueued::Exists);
    scene.claim_nothing().await;
}

pub async fn the_same_id_is_one_job_while_it_waits(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        let again = job;
        assert_eq!(scene.enqueue_again(again).await, Enqueued::Exists);
        scene.claim(1).await;
        scene.claim_nothing().await;
    }
}

pub async fn the_same_id_is_one_job_while_it_is_scheduled(subject: Subject) {
    for scene in subject.scenes() {
        let job = Traits { due: Due::In(LONG), ..Traits::default() }.job();
        scene.enqueue(job.clone()).await;
        assert_exists(&scene, &NewJob { due: Due::Now, ..job }).await;
        scene.assert_counts([0, 1, 0, 0]).await;
    }
}

pub async fn the_same_id_is_one_job_while_it_runs(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        let claimed = scene.claim_one().await;
        assert_exists(&scene, &job).await;
        scene.settle(&claimed, done()).await;
    }
}

pub async fn the_same_id_is_one_job_while_it_waits_for_its_next_attempt(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        scene.settle(&scene.claim_one().await, retry(LONG)).await;
        assert_exists(&scene, &job).await;
    }
}

pub async fn the_same_id_is_one_job_while_it_is_dead(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        scene.enqueue(job.clone()).await;
        scene.settle(&scene.claim_one().await, dead("bad")).await;
        assert_exists(&scene, &job).await;
    }
}

pub async fn the_same_id_is_one_job_while_its_record_is_kept(subject: Subject) {
    for scene in subject.scenes() {
        let job = Traits { keep: Some(LONG), ..Traits::default() }.job();
        scene.enqueue(job.clone()).await;
        scene.settle(&scene.claim_one().await, done()).await;
        assert_exists(&scene, &job).await;
    }
}

pub async fn the_same_id_is_one_job_on_whatever_queue(subject: Subject) {
    let (scene, other) = (subject.scene(), subject.scene_on("others", Guarantee::AtLeastOnce));
    let job = job();
    scene.enqueue(job.clone()).await;
    assert_exists(&other, &job).await;
    assert_exists(&subject.scene_at_most_once(), &job).await;
}

pub async fn the_same_id_twice_in_one_batch_is_one_job(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        let answers = scene.enqueue_batch(vec![job.clone(), job]).await.unwrap();
        assert_eq!(answers, [Enqueued::Created, Enqueued::Exists]);
        scene.claim(1).await;
        scene.claim_nothing().await;
    }
}

pub async fn an_id_is_free_again_when_its_job_is_gone(subject: Subject) {
    for scene in subject.scenes() {
        let job = job();
        for _ in 0..3 {
            scene.enqueue(job.clone()).await;
            scene.settle(&scene.claim_one().await, done()).await;
        }
    }
}

pub async fn a_repeated_enqueue_changes_nothing_of_the_first(subject: Subject) {
    for scene in subject.scenes() {
        let first = job();
        scene.enqueue(first.clone()).await;
        let other = Traits { payload: "\"other\"".to_owned(), due: Due::In(LONG), ..Traits::default() };
        let second = other.job_of(first.id.clone());
        assert_eq!(scene.enqueue_again(second).await, Enqueued::Exists);
        assert_eq!(envelope(&scene.claim_one().await).bytes(), &first.envelope);
    }
}

pub async fn answers_come_in_the_order_of_the_jobs(subject: Subject) {
    for scene in subject.scenes() {
        let mut jobs: Vec<_> = (0..20).map(|_| job()).collect();
        let known: Vec<_> = jobs.iter().step_by(3).cloned().collect();
        scene.enqueue_batch(known.clone()).await.unwrap();
        jobs.reverse();
        let answers = scene.enqueue_batch(jobs.clone()).await.unwrap();
        for (job, answer) in jobs.iter().zip(answers) {
            let exists = known.iter().any(|known| known.id == job.id);
            assert_eq!(answer, if exists { Enqueued::Exists } else { Enqueued::Created });
        }
    }
}

pub async fn an_empty_batch_does_nothing(subject: Subject) {
    for scene in subject.scenes() {
        assert!(scene.enqueue_batch(Vec::new()).await.unwrap().is_empty());
        scene.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_batch_of_a_thousand_jobs_is_added_whole(subject: Subject) {
    for scene in subject.scenes() {
        let mut ids = scene.enqueue_many(1000).await;
        scene.assert_counts([1000, 0, 0, 0]).await;
        let mut given: Vec<_> = scene.claim(1000).await.into_iter().map(|claimed| claimed.lease.job).collect();
        ids.sort();
        given.sort();
        assert_eq!(given, ids);
    }
}

pub async fn a_batch_may_mix_ready_and_delayed_jobs(subject: Subject) {
    for scene in subject.scenes() {
        let later = Traits { due: Due::In(LONG), ..Traits::default() };
        let jobs = vec![later.job(), job(), later.job()];
        let ready = jobs[1].id.clone();
        scene.enqueue_batch(jobs).await.unwrap();
        scene.assert_counts([1, 2, 0, 0]).await;
        assert_eq!(scene.claim_one().await.lease.job, ready);
    }
}

pub async fn a_payload_of_a_mebibyte_survives(subject: Subject) {
    for scene in subject.scenes() {
        let payload = format!("\"{}\"", "x".repeat((1 << 20) - 2));
        let job = Traits { payload, ..Traits::default() }.job();
        scene.enqueue(job.clone()).await;
        let claimed = scene.claim_one().await;
        assert!(envelope(&claimed).bytes() == &job.envelope);
        scene.settle(&claimed, done()).await;
    }
}

pub async fn text_in_every_spelling_survives(subject: Subject) {
    let payload = "[ \"Ünïcödé 漢字 🌊 \\u0000\\ud83c\\udf0a \\\"\\\\\\/\\n\", 1.50e+2,\t-0, 12345678901234567890123 ]\r\n";
    for scene in subject.scenes() {
        let job = Traits { payload: payload.trim_end().to_owned(), ..Traits::default() }.job();
        scene.enqueue(job.clone()).await;
        scene.settle(&scene.claim_one().await, dead("ünïcödé 🌊\u{0}")).await;
        let letter = scene.letter(&job.id).await;
        assert_eq!(letter.envelope().unwrap().payload(), payload.trim_end().as_bytes());
        assert_eq!(letter.reason.to_string(), "ünïcödé 🌊\u{0}");
    }
}

pub async fn an_id_may_hold_any_printable_character(subject: Subject) {
    for (scene, id) in subject.scenes().into_iter().zip([r#"a'b"c\d{e}%f_g:h*?[i]$1;--"#, r#"{x}}"'`~!@#^&()=+|<>,./"#]) {
        let id = JobId::new(id).unwrap();
        let quoted = id.as_str().replace('\\', r"\\").replace('"', "\\\"");
        let text = format!(r#"{{"job_id":"{quoted}","task_type":"test","keep_result_ms":30000}}"#);
        let job = NewJob { id: id.clone(), envelope: Bytes::from(text), due: Due::Now, tracked: true, generated_id: false, links: JobLinks::default() };
        scene.enqueue(job.clone()).await;
        let claimed = scene.claim_one().await;
        assert_eq!(claimed.lease.job, id);
        scene.settle(&claimed, done()).await;
        assert_eq!(scene.state(&id).await, Some(JobState::Done));
    }
}

pub async fn a_delay_of_a_century_is_kept(subject: Subject) {
    for scene in subject.scenes() {
        let due = Due::In(Duration::from_secs(99 * 365 * 24 * 3600));
        let id = scene.enqueue(Traits { due, ..Traits::default() }.job()).await;
        scene.promote().await;
        assert_eq!(scene.state(&id).await, Some(JobState::Scheduled));
    }
}

//! The ways to fail, and the state of the job afterwards.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::chain::JobLinks;
use tidemill_core::job::JobState;
use tidemill_core::store::{Due, EnqueueParams, Jobs, NewJob, Verdict};
use tidemill_core::{Clock, DeathReason, Envelope, JobId, Outcome};
use tidemill_worker::{EventKind, Fail, JobContext};

use crate::world::{Background, Ping, World, queue};

const MINUTE: Duration = Duration::from_secs(60);

/// Fails in the way that its number selects.
async fn fail(job: Ping) -> Result<u32, Fail> {
    match job.n {
        0 => Err(std::io::Error::other("no disk").into()),
        1 => Err(Fail::retry_after("busy", MINUTE)),
        2 => Err(Fail::snooze(MINUTE)),
        3 => Err(Fail::discard("nobody wants it")),
        4 => Err(Fail::dead("banned", "the user is banned")),
        _ => panic!("number {}", job.n),
    }
}

/// Runs one job with this number once.
async fn run_once(n: u32) -> (World, JobId, tidemill_worker::Report) {
    let world = World::new().await;
    let job = world.client.job(Ping { n }).enqueue().await.unwrap().id().clone();
    let report = world.worker().handle(fail).queue("default", 1).drain().await.unwrap();
    (world, job, report)
}

#[tokio::test]
async fn an_error_is_retried_after_the_backoff() {
    let (world, job, report) = run_once(0).await;
    let info = world.info(&job).await;
    assert_eq!((info.state, report.total.retried), (JobState::Scheduled, 1));
    assert!(info.due.unwrap() >= world.clock.now().after(Duration::from_secs(1)));
    assert_eq!(world.envelope(&job).await.attempts(), 1);
    assert!(String::from_utf8_lossy(&info.data).contains("no disk"));
}

#[tokio::test]
async fn retry_after_and_snooze_choose_their_time_and_only_one_counts() {
    for (n, attempts) in [(1, 1), (2, 0)] {
        let (world, job, report) = run_once(n).await;
        assert_eq!(world.info(&job).await.due, Some(world.clock.now().after(MINUTE)));
        assert_eq!(world.envelope(&job).await.attempts(), attempts);
        assert_eq!(
            (report.total.retried, report.total.snoozed),
            (u64::from(attempts), 1 - u64::from(attempts))
        );
    }
}

#[tokio::test]
async fn a_discarded_job_is_gone_and_a_dead_one_says_why() {
    let (world, job, report) = run_once(3).await;
    assert_eq!((world.state(&job).await, report.total.discarded), (Some(JobState::Cancelled), 1));
    let (world, job, report) = run_once(4).await;
    let letter = world.letter(&job).await;
    assert_eq!((letter.reason, report.total.dead), (DeathReason::Other("banned".into()), 1));
    assert_eq!(letter.last_error.as_deref(), Some("the user is banned"));
}

#[tokio::test]
async fn a_panic_is_caught_retried_and_counted() {
    let (world, job, report) = run_once(5).await;
    assert_eq!((world.state(&job).await, report.total.retried), (Some(JobState::Scheduled), 1));
    let data = world.info(&job).await.data;
    assert!(String::from_utf8_lossy(&data).contains("the handler panicked: number 5"));
}

#[tokio::test]
async fn a_job_that_always_fails_ends_in_the_dead_letters() {
    let world = World::new().await;
    let job = world.client.job(Ping { n: 0 }).max_attempts(3).enqueue().await.unwrap().id().clone();
    let mut running = Background::run(world.worker().handle(fail).queue("default", 1));
    for expected in [EventKind::Retried, EventKind::Retried, EventKind::Dead] {
        assert_eq!(world.as_time_passes(running.next()).await.outcome, expected);
    }
    assert_eq!(world.letter(&job).await.reason, DeathReason::MaxAttemptsExceeded);
    running.stop().await;
}

#[tokio::test]
async fn a_handler_that_claims_to_have_settled_its_job_is_retried() {
    let world = World::new().await;
    let job = world.ping().await;
    let handler = |_: Envelope, _: JobContext| async { Outcome::Settled(Verdict::Accepted) };
    let report = world.worker().handle_untyped("ping", handler).queue("default", 1).drain().await.unwrap();
    assert_eq!((world.info(&job).await.state, report.total.retried), (JobState::Scheduled, 1));
    assert!(String::from_utf8_lossy(&world.info(&job).await.data).contains("only a transaction"));
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_dead_at_once() {
    let world = World::new().await;
    let payload = serde_json::value::to_raw_value("text").unwrap();
    let job = world.client.untyped("ping", payload).enqueue().await.unwrap().id().clone();
    let report = world.worker().handle(fail).queue("default", 1).drain().await.unwrap();
    assert_eq!((world.letter(&job).await.reason, report.total.dead), (DeathReason::InvalidPayload, 1));
}

#[tokio::test]
async fn a_message_that_is_no_envelope_is_buried_and_disturbs_nobody() {
    let world = World::new().await;
    let garbage = Bytes::from_static(b"not an envelope");
    let raw = NewJob {
        id: JobId::new("x").unwrap(),
        envelope: garbage,
        due: Due::Now,
        tracked: true,
        generated_id: false,
        links: JobLinks::default(),
    };
    let batch = EnqueueParams { queue: &queue(), jobs: &[raw] };
    world.store.enqueue(batch).await.unwrap();
    let sound = world.client.job(Ping { n: 3 }).enqueue().await.unwrap().id().clone();
    let report = world.worker().handle(fail).queue("default", 1).drain().await.unwrap();
    assert_eq!((report.total.dead, report.total.discarded), (1, 1));
    assert_eq!(world.state(&sound).await, Some(JobState::Cancelled));
    assert_eq!(world.letters().await[0].reason, DeathReason::InvalidEnvelope);
}

#[tokio::test]
async fn a_kind_nobody_here_knows_is_handed_back_for_later() {
    let world = World::new().await;
    let payload = serde_json::value::to_raw_value(&()).unwrap();
    let job = world.client.untyped("mystery", payload).enqueue().await.unwrap().id().clone();
    let report = world.worker().handle(fail).queue("default", 1).drain().await.unwrap();
    assert_eq!((world.state(&job).await, report.total.snoozed), (Some(JobState::Scheduled), 1));
    assert_eq!(world.envelope(&job).await.attempts(), 0);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_stopped_and_retried() {
    let world = World::new().await;
    let job = world.client.job(Ping { n: 0 }).timeout(MINUTE).enqueue().await.unwrap().id().clone();
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let hang = move |_: Ping, cx: JobContext| {
        let begun = begun.clone();
        async move {
            begun.send(cx.deadline()).await.unwrap();
            std::future::pending::<Result<u32, Fail>>().await
        }
    };
    let mut running = Background::run(world.worker().handle(hang).queue("default", 1));
    assert_eq!(has_begun.recv().await.unwrap(), Some(world.clock.now().after(MINUTE)));
    assert_eq!(world.as_time_passes(running.next()).await.outcome, EventKind::Retried);
    let data = world.info(&job).await.data;
    assert!(String::from_utf8_lossy(&data).contains("did not end within 60s"));
    running.stop().await;
}

#[tokio::test]
async fn a_job_that_comes_with_its_attempts_used_up_does_not_run() {
    let world = World::new().await;
    let envelope = r#"{"job_id":"x","task_type":"ping","attempts":3,"max_attempts":3,"payload":{"n":9}}"#;
    let raw = NewJob {
        id: JobId::new("x").unwrap(),
        envelope: envelope.into(),
        due: Due::Now,
        tracked: true,
        generated_id: false,
        links: JobLinks::default(),
    };
    world.store.enqueue(EnqueueParams { queue: &queue(), jobs: &[raw] }).await.unwrap();
    let handler = |_: Ping| async move { panic!("it runs") as Result<u32, Fail> };
    let report = world.worker().handle(handler).queue("default", 1).drain().await.unwrap();
    assert_eq!((report.total.dead, report.total.retried), (1, 0));
    let letter = &world.letters().await[0];
    assert_eq!(
        (letter.reason.clone(), letter.envelope().unwrap().attempts()),
        (DeathReason::MaxAttemptsExceeded, 3)
    );
}

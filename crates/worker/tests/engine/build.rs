//! An invalid configuration is reported before the worker runs.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::chain::Dedup;
use tidemill_worker::{Fail, State, WorkerBuilder};

use crate::world::{Ping, World};

#[derive(Clone)]
struct Mailer;

async fn needs_mailer(_: Ping, State(_): State<Mailer>) -> Result<u32, Fail> {
    Ok(0)
}

async fn plain(job: Ping) -> Result<u32, Fail> {
    Ok(job.n)
}

/// An invalid configuration.
type InvalidConfig = fn(WorkerBuilder) -> WorkerBuilder;

async fn build_error(configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> String {
    configure(World::new().await.worker()).build().unwrap_err().to_string()
}

#[tokio::test]
async fn missing_state_names_the_type_and_the_kind() {
    let error = build_error(|worker| worker.handle(needs_mailer).queue("default", 1)).await;
    assert!(error.contains("kind `ping`") && error.contains("build::Mailer>"), "{error}");
    let sound = World::new().await.worker().handle(needs_mailer).state(Mailer).queue("default", 1).build();
    assert!(sound.is_ok(), "state may be given after the handler");
}

#[tokio::test]
async fn every_other_mistake_is_named_too() {
    let mistakes: [(&str, InvalidConfig); 9] = [
        ("kind `ping` has two handlers", |w| w.handle(plain).handle(plain).queue("default", 1)),
        ("the worker has no queue", |w| w.handle(plain)),
        ("the worker has no handler", |w| w.queue("default", 1)),
        ("queue `a` is given twice", |w| w.handle(plain).queue("a", 1).queue("a", 2)),
        ("queue \"a b\" is not valid", |w| w.handle(plain).queue("a b", 1)),
        ("queue `a (at most once)` has a concurrency of 0", |w| w.handle(plain).at_most_once("a", 0)),
        ("Mailer` is given twice", |w| w.handle(plain).state(Mailer).state(Mailer).queue("a", 1)),
        ("a lease of 1ms is too short", |w| w.handle(plain).queue("a", 1).lease(Duration::from_millis(1))),
        ("at most 100 years are allowed", |w| w.handle(plain).queue("a", 1).lease(Duration::MAX)),
    ];
    for (expected, mistake) in mistakes {
        let error = build_error(mistake).await;
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_job_with_a_time_without_end_is_refused_before_anything_is_written() {
    let world = World::new().await;
    let ping = || world.client.job(Ping { n: 1 });
    let window = Dedup::open("k").within(Duration::MAX);
    for (expected, refused) in [
        ("the time for which a result is kept", ping().keep_result(Duration::MAX).enqueue().await),
        ("the timeout", ping().timeout(Duration::MAX).enqueue().await),
        ("more than 100 years ahead", ping().delay(Duration::MAX).enqueue().await),
        ("the window of a deduplication key", ping().dedup(window).enqueue().await),
    ] {
        let Err(Error::Invalid(why)) = refused else { panic!("{expected}: {refused:?}") };
        assert!(why.contains(expected) && why.contains("100 years"), "{why}");
    }
    let bulk = world.client.jobs([Ping { n: 1 }]).keep_result(Duration::MAX).enqueue().await;
    assert!(matches!(bulk.map_err(Error::from), Err(Error::Invalid(_))));
    assert!(world.store.inner.list_queues().await.unwrap().is_empty());
}

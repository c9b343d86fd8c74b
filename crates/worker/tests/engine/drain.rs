//! Draining ends when there is nothing to do, and not before.

use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_core::job::JobState;
use tidemill_core::store::Queues;
use tidemill_worker::{Fail, JobContext};

use crate::fault_plan::{Fault, Verb};
use crate::world::{Background, Ping, World, queue, with_timeout};

async fn plain(job: Ping) -> Result<u32, Fail> {
    Ok(job.n)
}

#[tokio::test]
async fn an_empty_queue_is_drained_at_once() {
    let world = World::new().await;
    let report = with_timeout(world.worker().handle(plain).queue("default", 4).drain()).await.unwrap();
    assert_eq!(report.total, Default::default());
}

#[tokio::test]
async fn a_drain_runs_what_is_due_and_leaves_what_is_not() {
    let world = World::new().await;
    let later = world.client.job(Ping { n: 1 }).delay(Duration::from_secs(60)).enqueue().await.unwrap();
    world.pings(1000).await;
    let drain = || world.worker().handle(plain).queue("default", 4).drain();
    assert_eq!(with_timeout(drain()).await.unwrap().total.done, 1000);
    assert_eq!(world.state(later.id()).await, Some(JobState::Scheduled));
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(with_timeout(drain()).await.unwrap().total.done, 1);
}

#[tokio::test]
async fn draining_scheduled_jobs_waits_for_their_retries() {
    let world = World::new().await;
    world.ping().await;
    let third_time = |_: Ping, cx: JobContext| async move {
        if cx.attempt() < 3 { Err(Fail::retry("not yet")) } else { Ok(0) }
    };
    let drain = world.worker().handle(third_time).queue("default", 1).drain_scheduled();
    let report = world.as_time_passes(drain).await.unwrap();
    assert_eq!((report.total.retried, report.total.done), (2, 1));
}

#[tokio::test]
async fn jobs_that_make_jobs_are_drained_too() {
    let world = World::new().await;
    world.client.job(Ping { n: 20 }).enqueue().await.unwrap();
    let client = world.client.clone();
    let halve = move |job: Ping| {
        let client = client.clone();
        async move {
            if job.n > 0 {
                client.job(Ping { n: job.n - 1 }).enqueue().await?;
            }
            Ok::<_, Fail>(job.n)
        }
    };
    let report = with_timeout(world.worker().handle(halve).queue("default", 2).drain()).await.unwrap();
    assert_eq!(report.total.done, 21);
}

#[tokio::test]
async fn a_paused_queue_does_not_hold_up_a_drain_and_goes_on_when_resumed() {
    let world = World::new().await;
    world.pings(3).await;
    world.store.pause(&queue()).await.unwrap();
    let worker = || world.worker().handle(plain).queue("default", 1);
    assert_eq!(with_timeout(worker().drain()).await.unwrap().total.claimed, 0);
    let mut running = Background::run(worker());
    world.store.resume(&queue()).await.unwrap();
    running.next().await;
    running.stop().await;
}

#[tokio::test]
async fn a_drain_waits_for_jobs_that_a_claim_has_taken_and_not_brought_yet() {
    let world = World::new().await;
    world.store.uncounted.store(true, Ordering::SeqCst);
    world.plan().next(Verb::Claim, Fault::Late, 1);
    world.pings(3).await;
    let report = with_timeout(world.worker().handle(plain).queue("default", 4).drain()).await.unwrap();
    assert_eq!(report.total.done, 3);
}

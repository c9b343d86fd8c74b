//! Cancellation of running handlers.

use std::future::pending;
use std::time::Duration;
use tidemill_core::job::JobState;
use tidemill_core::store::{Cancelled, Jobs};
use tidemill_worker::{EventKind, Fail, JobContext};
use tokio::sync::mpsc;

use crate::fault_plan::{Fault, Verb};
use crate::world::{Background, Ping, World};

/// Sends a message when it starts, then waits for ever or until it is cancelled.
fn waiting(
    begun: mpsc::Sender<()>,
    watches: bool,
) -> impl Fn(Ping, JobContext) -> futures_util::future::BoxFuture<'static, Result<u32, Fail>> + Clone {
    move |_: Ping, cx: JobContext| {
        let begun = begun.clone();
        Box::pin(async move {
            begun.send(()).await.unwrap();
            if watches {
                cx.cancelled().await;
                return Ok(42);
            }
            pending().await
        })
    }
}

#[tokio::test]
async fn a_handler_that_does_not_watch_is_dropped() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begun, mut has_begun) = mpsc::channel(1);
    let worker = world.worker().handle(waiting(begun, false)).cancel_grace(Duration::MAX);
    let mut running = Background::run(worker.queue("default", 1));
    has_begun.recv().await.unwrap();
    assert_eq!(world.store.cancel(&job).await.unwrap(), Cancelled::Requested);
    assert_eq!(running.next().await.outcome, EventKind::Cancelled);
    assert_eq!(world.state(&job).await, Some(JobState::Cancelled));
    assert_eq!(running.stop().await.total.cancelled, 1);
}

#[tokio::test]
async fn a_handler_that_watches_may_still_finish() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begun, mut has_begun) = mpsc::channel(1);
    let mut running = Background::run(world.worker().handle(waiting(begun, true)).queue("default", 1));
    has_begun.recv().await.unwrap();
    world.store.cancel(&job).await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Done);
    assert_eq!(world.info(&job).await.record.unwrap().output, b"42".as_slice());
    running.stop().await;
}

#[tokio::test]
async fn the_heartbeat_brings_a_cancellation_whose_wake_up_was_lost() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begun, mut has_begun) = mpsc::channel(1);
    world.mute();
    world.plan().always(Verb::Expired, Fault::Away);
    let mut running = Background::run(world.worker().handle(waiting(begun, false)).queue("default", 1));
    has_begun.recv().await.unwrap();
    world.store.cancel(&job).await.unwrap();
    assert_eq!(world.as_time_passes(running.next()).await.outcome, EventKind::Cancelled);
    running.stop().await;
}

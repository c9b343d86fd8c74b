//! Prefetched jobs are held, not started.

use std::time::Duration;
use tidemill_core::settle::expired::rescue;
use tidemill_core::store::Queues;
use tidemill_worker::{Fail, JobContext};
use tokio::sync::{mpsc, watch};

use crate::fault_plan::{Fault, Verb};
use crate::world::{Background, Ping, World, queue, with_timeout};

const LEASE: Duration = Duration::from_secs(30);

/// A handler that reports which job starts and waits until it may end.
fn gated(
    begun: mpsc::UnboundedSender<u32>,
    gate: watch::Receiver<bool>,
) -> impl Fn(Ping, JobContext) -> futures_util::future::BoxFuture<'static, Result<u32, Fail>> + Clone {
    move |job: Ping, _: JobContext| {
        let (begun, mut gate) = (begun.clone(), gate.clone());
        Box::pin(async move {
            begun.send(job.n).unwrap();
            gate.wait_for(|open| *open).await.unwrap();
            Ok(job.n)
        })
    }
}

#[tokio::test]
async fn held_jobs_wait_and_then_start_in_order() {
    let world = World::new().await;
    world.pings(5).await;
    let ((begun, mut begins), (open, gate)) = (mpsc::unbounded_channel(), watch::channel(false));
    let worker = world.worker().handle(gated(begun, gate)).queue("default", 2).prefetch(3);
    let running = Background::run(worker);
    assert_eq!((begins.recv().await, begins.recv().await), (Some(0), Some(1)));
    assert_eq!(world.queue_info().await.running, 5);
    assert!(begins.try_recv().is_err());
    open.send(true).unwrap();
    for expected in 2..5 {
        assert_eq!(with_timeout(begins.recv()).await, Some(expected));
    }
    assert!(world.plan().count(Verb::Start) >= 1);
    assert_eq!(running.stop().await.total.done, 5);
}

#[tokio::test]
async fn a_crash_costs_a_held_job_no_attempt() {
    let world = World::new().await;
    let jobs = world.pings(2).await;
    let ((begun, mut begins), (_open, gate)) = (mpsc::unbounded_channel(), watch::channel(false));
    world.plan().always(Verb::Extend, Fault::Away);
    world.plan().always(Verb::Expired, Fault::Away);
    let worker = world.worker().handle(gated(begun, gate)).queue("default", 1).prefetch(1);
    let run = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    begins.recv().await.unwrap();
    assert_eq!(world.queue_info().await.running, 2);
    // Killed: nothing is handed back.
    run.abort();
    let _ = run.await;
    world.clock.advance(LEASE * 2);
    assert_eq!(rescue(&*world.store.inner, &[queue()], LEASE).await.unwrap(), 2);
    let attempts = [world.envelope(&jobs[0]).await.attempts(), world.envelope(&jobs[1]).await.attempts()];
    assert_eq!(attempts, [1, 0]);
}

#[tokio::test]
async fn a_held_job_whose_lease_is_lost_is_not_run() {
    let world = World::new().await;
    world.pings(2).await;
    let ((begun, mut begins), (open, gate)) = (mpsc::unbounded_channel(), watch::channel(false));
    world.plan().always(Verb::Extend, Fault::Away);
    world.plan().always(Verb::Expired, Fault::Away);
    let worker = world.worker().handle(gated(begun, gate)).queue("default", 1).prefetch(1);
    let stats = worker.stats();
    let running = Background::run(worker);
    assert_eq!(begins.recv().await, Some(0));
    world.store.pause(&queue()).await.unwrap();
    world.clock.advance(LEASE * 2);
    assert_eq!(rescue(&*world.store.inner, &[queue()], LEASE).await.unwrap(), 2);
    open.send(true).unwrap();
    with_timeout(async {
        while stats.total().lost < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(running.stop().await.total.done, 0);
    assert!(begins.try_recv().is_err());
}

#[tokio::test]
async fn a_start_that_fails_is_repeated() {
    let world = World::new().await;
    world.pings(4).await;
    let ((begun, _begins), (open, gate)) = (mpsc::unbounded_channel(), watch::channel(true));
    world.plan().next(Verb::Start, Fault::AnswerLost, 2);
    let worker = world.worker().handle(gated(begun, gate)).queue("default", 1).prefetch(3);
    assert_eq!(with_timeout(worker.drain()).await.unwrap().total.done, 4);
    drop(open);
}

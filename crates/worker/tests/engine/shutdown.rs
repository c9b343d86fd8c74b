//! The order in which a worker shuts down.

use std::future::pending;
use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_worker::{EventKind, Fail, JobContext};
use tokio::sync::{mpsc, watch};

use crate::fault_plan::{Fault, Verb};
use crate::world::{Background, Ping, World, with_timeout};

#[tokio::test]
async fn running_handlers_may_finish_and_held_jobs_go_back_uncounted() {
    let world = World::new().await;
    let jobs = world.pings(3).await;
    let ((begun, mut begins), (open, gate)) = (mpsc::channel(3), watch::channel(false));
    let handler = move |job: Ping| {
        let (begun, mut gate) = (begun.clone(), gate.clone());
        async move {
            begun.send(job.n).await?;
            gate.wait_for(|open| *open).await?;
            Ok::<_, Fail>(job.n)
        }
    };
    let worker = world.worker().handle(handler).queue("default", 1).prefetch(2);
    let mut running = Background::run(worker);
    begins.recv().await.unwrap();
    running.request_stop();
    let back: Vec<_> = [running.next().await, running.next().await].map(|event| event.outcome).into();
    assert_eq!(back, [EventKind::HandedBack, EventKind::HandedBack]);
    open.send(true).unwrap();
    let report = running.stop().await;
    assert_eq!((report.total.done, report.total.handed_back, report.unfinished), (1, 2, Default::default()));
    for job in &jobs[1..] {
        assert_eq!(world.state(job).await, Some(JobState::Ready));
        assert_eq!(world.envelope(job).await.attempts(), 0);
    }
}

#[tokio::test]
async fn a_handler_that_outlasts_the_grace_is_cancelled_and_its_job_goes_back_uncounted() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begun, mut begins) = mpsc::channel(1);
    let handler = move |_: Ping| {
        let begun = begun.clone();
        async move {
            begun.send(()).await?;
            pending::<Result<u32, Fail>>().await
        }
    };
    let worker = world.worker().handle(handler).queue("default", 1).shutdown_grace(Duration::ZERO);
    let running = Background::run(worker);
    begins.recv().await.unwrap();
    let report = running.stop().await;
    assert_eq!((report.total.handed_back, report.unfinished.abandoned), (1, 0));
    assert_eq!(world.state(&job).await, Some(JobState::Ready));
    assert_eq!(world.envelope(&job).await.attempts(), 0);
}

#[tokio::test]
async fn the_heartbeat_goes_on_until_everything_is_settled_and_the_worker_has_left() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begun, mut begins) = mpsc::channel(1);
    let handler = move |_: Ping, cx: JobContext| {
        let begun = begun.clone();
        async move {
            begun.send(()).await?;
            cx.cancelled().await;
            Err::<u32, _>(Fail::retry("interrupted"))
        }
    };
    let worker = world.worker().handle(handler).queue("default", 1).shutdown_grace(Duration::ZERO);
    let mut running = Background::run(worker);
    begins.recv().await.unwrap();
    world.plan().always(Verb::Settle, Fault::Away);
    world.plan().always(Verb::Expired, Fault::Away);
    running.request_stop();
    with_timeout(world.plan().called(Verb::Settle, 1)).await;
    // During shutdown, with a settlement that keeps failing, the lease is still extended.
    world.as_time_passes(world.plan().called(Verb::Extend, 2)).await;
    world.plan().heal();
    assert_eq!(running.next().await.outcome, EventKind::HandedBack);
    running.stop().await;
    let calls: Vec<_> = world.plan().calls().into_iter().map(|(verb, _)| verb).collect();
    let last = |verb| calls.iter().rposition(|call| *call == verb).unwrap();
    assert!(last(Verb::Claim) < last(Verb::Settle) && last(Verb::Settle) < last(Verb::Leave), "{calls:?}");
    assert_eq!(world.envelope(&job).await.attempts(), 0);
}

#[tokio::test]
async fn nothing_is_claimed_after_the_shutdown_has_begun() {
    let world = World::new().await;
    let handler = |job: Ping| async move { Ok::<_, Fail>(job.n) };
    let running = Background::run(world.worker().handle(handler).queue("default", 4));
    with_timeout(world.plan().called(Verb::Claim, 1)).await;
    let report = running.stop().await;
    let job = world.ping().await;
    assert_eq!((report.total.claimed, world.plan().count(Verb::Claim)), (0, 1));
    assert_eq!(world.state(&job).await, Some(JobState::Ready));
}

#[tokio::test]
async fn a_dropped_worker_takes_its_handlers_along() {
    let world = World::new().await;
    world.ping().await;
    let (alive, mut lives) = mpsc::channel::<()>(1);
    let handler = move |_: Ping| {
        let alive = alive.clone();
        async move {
            alive.send(()).await?;
            pending::<Result<u32, Fail>>().await
        }
    };
    let run = tokio::spawn(world.worker().handle(handler).queue("default", 1).run_until(pending::<()>()));
    lives.recv().await.unwrap();
    run.abort();
    assert_eq!(with_timeout(lives.recv()).await, None, "the handler, and its sender, are gone");
}

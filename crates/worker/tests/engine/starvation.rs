//! One job does not delay others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidemill_core::JobId;
use tidemill_core::chain::JobLinks;
use tidemill_core::store::{Due, EnqueueParams, Jobs, NewJob};
use tidemill_worker::Fail;
use tokio::sync::watch;

use crate::fault_plan::{Fault, Verb};
use crate::world::{Background, Ping, World, queue, with_timeout};

#[tokio::test]
async fn a_slow_handler_does_not_starve_its_siblings() {
    let world = World::new().await;
    let (open, gate) = watch::channel(false);
    let handler = move |job: Ping| {
        let mut gate = gate.clone();
        async move {
            if job.n == 0 {
                gate.wait_for(|open| *open).await?;
            }
            Ok::<_, Fail>(job.n)
        }
    };
    world.pings(200).await;
    let mut running = Background::run(world.worker().handle(handler).queue("default", 4));
    for _ in 0..199 {
        running.next().await;
    }
    open.send(true).unwrap();
    assert_eq!(running.stop().await.total.done, 200);
}

/// Blocks its thread until all other jobs of its batch have run, which requires that they do not
/// wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_its_thread_does_not_hold_up_those_claimed_with_it() {
    let world = World::new().await;
    world.pings(8).await;
    let others = Arc::new(AtomicU32::new(0));
    let handler = move |job: Ping| {
        let others = others.clone();
        async move {
            if job.n > 0 {
                others.fetch_add(1, Ordering::SeqCst);
            }
            while job.n == 0 && others.load(Ordering::SeqCst) < 7 {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<_, Fail>(job.n)
        }
    };
    let report = with_timeout(world.worker().handle(handler).queue("default", 8).drain()).await.unwrap();
    assert_eq!(report.total.done, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_run_at_once_than_may() {
    let world = World::new().await;
    world.pings(300).await;
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = most.clone();
    let handler = move |job: Ping| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Fail>(job.n)
        }
    };
    let report =
        with_timeout(world.worker().handle(handler).queue("default", 5).prefetch(20).drain()).await.unwrap();
    assert_eq!(report.total.done, 300);
    assert!(seen.load(Ordering::SeqCst) <= 5);
}

/// An unsettled job does not delay a job that has crashed a worker for ever.
#[tokio::test]
async fn a_job_that_has_crashed_runs_although_others_cannot_be_settled() {
    let world = World::new().await;
    world.plan().always(Verb::Settle, Fault::Away);
    let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |job: Ping| {
        let begin = begin.clone();
        async move {
            begin.send(job.n).unwrap();
            Ok::<_, Fail>(job.n)
        }
    };
    world.ping().await;
    let running = Background::run(world.worker().handle(handler).queue("default", 2));
    assert_eq!(with_timeout(begun.recv()).await, Some(0));
    with_timeout(world.plan().called(Verb::Settle, 1)).await;
    let envelope = r#"{"job_id":"x","task_type":"ping","attempts":1,"crashes":1,"payload":{"n":9}}"#;
    let raw = NewJob {
        id: JobId::new("x").unwrap(),
        envelope: envelope.into(),
        due: Due::Now,
        tracked: true,
        generated_id: false,
        links: JobLinks::default(),
    };
    world.store.enqueue(EnqueueParams { queue: &queue(), jobs: &[raw] }).await.unwrap();
    assert_eq!(with_timeout(begun.recv()).await, Some(9));
    world.plan().heal();
    assert_eq!(running.stop().await.total.done, 2);
}

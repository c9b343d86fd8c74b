//! Activities: retries, timeouts, heartbeats and cancellation by the store and the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidemill_core::store::Cancelled;
use tidemill_core::store::runs::ReadJournalParams;
use tidemill_core::{Queue, QueueName};
use tidemill_worker::{Fail, JobContext, State, Worker};
use tidemill_workflow::{Activity, ActivityError, Ctx, RetryPolicy, RunWorkflows, StartWorkflows, Workflow};
use tokio::sync::Notify;

use crate::world::{Background, MAIN, World, ms, patiently, until};

const FLAKY: Activity<u64, u64> = Activity::new("flaky").queue("shaky");
const HANGS: Activity<(), ()> = Activity::new("hangs");
const SAID: Workflow<(), String> = Workflow::new("said");

#[derive(Clone, Default)]
struct Tries(Arc<AtomicU32>);

async fn flaky(n: u64, State(tries): State<Tries>, cx: JobContext) -> Result<u64, Fail> {
    tries.0.fetch_add(1, Ordering::SeqCst);
    if cx.attempt() < 3 { Err(Fail::retry("not yet")) } else { Ok(n + u64::from(cx.attempt())) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_is_tried_again_by_the_store_and_takes_state() {
    let (world, tries) = (World::new().await, Tries::default());
    let worker = Worker::builder(&world.client).state(tries.clone()).activity(&FLAKY, flaky);
    let worker = Background::run(worker.workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let retry = RetryPolicy::constant(5, ms(1));
        let one = ctx.activity(&FLAKY, n).retry(retry).await?;
        Ok(one + ctx.local(&FLAKY, n).retry(retry).await?)
    }));
    let run = world.start().await;
    assert_eq!(patiently(run.wait()).await.unwrap(), 8);
    assert_eq!(tries.0.load(Ordering::SeqCst), 6);
    let read = ReadJournalParams { run: run.id(), from: 1, limit: 100, bytes: 1 << 20 };
    assert_eq!(world.store().read_journal(read).await.unwrap().len(), 4, "started, asked, done, ended");
    worker.stop().await;
}

async fn hangs((): (), cx: JobContext, State(beats): State<bool>) -> Result<(), Fail> {
    loop {
        if beats {
            cx.heartbeat();
        }
        tokio::time::sleep(ms(5)).await;
    }
}

/// The error of an activity that never ends.
async fn said<C, F>(beats: bool, code: C) -> String
where
    C: Fn(Ctx, ()) -> F + Send + Sync + 'static,
    F: Future<Output = Result<String, tidemill_workflow::WorkflowError>> + Send + 'static,
{
    let world = World::new().await;
    let worker = Worker::builder(&world.client).state(beats).activity(&HANGS, hangs).workflow(&SAID, code);
    let worker = Background::run(worker);
    let run = world.client.workflow(&SAID, ()).start().await.unwrap();
    let said = patiently(run.wait()).await.unwrap();
    // The activity is notified, and its job is gone.
    until(async || {
        let queues = world.store().list_queues().await.unwrap();
        queues.iter().all(|queue| queue.running + queue.ready == 0).then_some(())
    })
    .await;
    worker.stop().await;
    said
}

fn text(end: Result<(), ActivityError>) -> Result<String, tidemill_workflow::WorkflowError> {
    Ok(end.unwrap_err().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_timeout_of_an_activity_has_its_name() {
    let attempt = said(false, async |ctx: Ctx, ()| {
        text(ctx.activity(&HANGS, ()).timeout(ms(20)).retry(RetryPolicy::constant(2, ms(1))).await)
    });
    assert_eq!(attempt.await, "activity `hangs` exceeded its start-to-close timeout in attempt 2");
    let all = said(true, async |ctx: Ctx, ()| text(ctx.activity(&HANGS, ()).deadline(ms(40)).await));
    assert!(all.await.contains("schedule-to-close"));
    let silent = said(false, async |ctx: Ctx, ()| {
        text(ctx.activity(&HANGS, ()).heartbeat(ms(20)).retry(RetryPolicy::never()).await)
    });
    assert!(silent.await.contains("heartbeat timeout in attempt 1"));
    let alive = said(true, async |ctx: Ctx, ()| {
        let hangs = ctx.activity(&HANGS, ()).heartbeat(Duration::from_secs(5)).timeout(ms(60));
        text(hangs.retry(RetryPolicy::never()).await)
    });
    assert!(alive.await.contains("start-to-close"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_that_loses_a_race_is_cancelled() {
    const WAITS: Activity<(), ()> = Activity::new("waits");
    #[derive(Clone, Default)]
    struct Stopped(Arc<Notify>);
    async fn waits((): (), cx: JobContext, State(stopped): State<Stopped>) -> Result<(), Fail> {
        cx.cancelled().await;
        stopped.0.notify_one();
        Err(Fail::retry("stopped"))
    }
    let (world, stopped) = (World::new().await, Stopped::default());
    let worker = Worker::builder(&world.client).state(stopped.clone()).activity(&WAITS, waits);
    let worker = Background::run(worker.workflow(&MAIN, async |ctx: Ctx, n: u64| {
        tidemill_workflow::select! {
            end = ctx.activity(&WAITS, ()) => { end?; },
            _ = ctx.sleep(ms(100)) => {},
        }
        ctx.sleep(Duration::from_secs(3600)).await?;
        Ok(n)
    }));
    let run = world.start().await;
    patiently(stopped.0.notified()).await;
    run.terminate("enough").await.unwrap();
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_activity_that_this_worker_does_not_know_waits_for_one_that_does() {
    let world = World::new().await;
    let code =
        async |ctx: Ctx, n: u64| Ok(ctx.local(&FLAKY, n).retry(RetryPolicy::constant(5, ms(1))).await?);
    let ignorant = Background::run(world.worker().workflow(&MAIN, code));
    let run = world.start().await;
    let reason = crate::world::blocked(&run).await;
    assert!(reason.contains("also knows activity `flaky`"), "{reason}");
    ignorant.stop().await;
    let worker = Worker::builder(&world.client).state(Tries::default()).activity(&FLAKY, flaky);
    let worker = Background::run(worker.workflow(&MAIN, code));
    assert_eq!(patiently(run.wait()).await.unwrap(), 4);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_that_is_taken_away_by_hand_fails_as_one_that_was_cancelled() {
    let world = World::new().await;
    // No worker serves the queue of this activity.
    let worker = Background::run(
        world.worker().workflow(&SAID, async |ctx: Ctx, ()| text(ctx.activity(&FLAKY, 1).await.map(drop))),
    );
    let shaky = Queue::at_least_once(QueueName::new("shaky").unwrap());
    for by_purge in [true, false] {
        // A job of another kind with the run's id does not matter.
        let id = format!("order-{by_purge}");
        world.client.untyped("other", Box::default()).queue("elsewhere").id(&id).enqueue().await.unwrap();
        let run = world.client.workflow(&SAID, ()).id(&id).start().await.unwrap();
        let activity = run.id().part(1);
        until(async || world.store().get_job(&activity).await.unwrap()).await;
        match by_purge {
            true => assert_eq!(world.store().purge(&shaky).await.unwrap(), 1),
            false => assert_eq!(world.store().cancel(&activity).await.unwrap(), Cancelled::Removed),
        }
        assert_eq!(patiently(run.wait()).await.unwrap(), "activity `flaky` was cancelled");
    }
    worker.stop().await;
}

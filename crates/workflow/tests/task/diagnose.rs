//! `diagnose`: why a run makes no progress.

use std::time::Duration;

use tidemill_core::{Queue, QueueName};
use tidemill_workflow::{
    Activity, Ctx, DEFAULT_ACTIVITY_QUEUE, RunHandle, RunProgress, RunWorkflows, Signal, Update,
};

use crate::world::{Background, DOUBLE, MAIN, World, patiently, until};

/// Waits until the first wait of the run has a note that contains `says`.
async fn noted(run: &RunHandle<u64>, says: &str) -> String {
    until(async || {
        let wait = run.diagnose().await.unwrap().waits.into_iter().next()?;
        wait.note.filter(|note| note.contains(says))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_what_it_waits_for_and_since_when() {
    const NOWHERE: Activity<(), u64> = Activity::new("nowhere").queue("nobody");
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let (slept, ran) =
            tidemill_workflow::join!(ctx.sleep(Duration::from_secs(3600)), ctx.activity(&NOWHERE, ()));
        slept?;
        Ok(n + ran?)
    }));
    let run = world.start().await;
    let diagnosis = until(async || {
        let diagnosis = run.diagnose().await.unwrap();
        (diagnosis.progress == RunProgress::Waiting).then_some(diagnosis)
    })
    .await;
    let waits: Vec<_> = diagnosis.waits.iter().map(|wait| wait.what.as_str()).collect();
    assert!(waits[0].starts_with("timer at 2"), "{waits:?}");
    assert_eq!(waits[1], "activity `nowhere`");
    assert!(diagnosis.waits[0].since.0 > 0);
    let note = diagnosis.waits[1].note.as_deref();
    assert_eq!(note, Some("no worker on queue `nobody` has taken it yet"));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_without_a_worker_which_messages_it_waits_for() {
    const APPROVE: Signal<()> = Signal::new("approve");
    const REJECT: Signal<()> = Signal::new("reject");
    const LIMIT: Update<u64, u64> = Update::new("limit");
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let task = ctx.clone();
        ctx.spawn(async move { drop(task.updates(&LIMIT).recv().await) });
        tidemill_workflow::select! {
            _ = ctx.signals(&APPROVE).recv() => {},
            _ = ctx.signals(&REJECT).recv() => {},
        }
        ctx.signals(&REJECT).recv().await?;
        Ok(n)
    }));
    let run = world.start().await;
    let waits = async || {
        let waits = run.diagnose().await.unwrap().waits;
        assert!(waits.iter().all(|wait| wait.since.0 > 0 && wait.seq.is_none()), "{waits:?}");
        waits.into_iter().map(|wait| wait.what).collect::<Vec<_>>()
    };
    let all = ["signal `approve`", "signal `reject`", "update `limit`"];
    until(async || (waits().await == all).then_some(())).await;
    run.signal(&APPROVE, &()).await.unwrap();
    until(async || (waits().await == all[1..]).then_some(())).await;
    worker.stop().await;
    assert_eq!(waits().await, all[1..]);
    let shown = run.diagnose().await.unwrap().to_string();
    assert!(shown.contains("for signal `reject` since "), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_is_named_be_it_the_runs_own_or_that_of_its_activity() {
    let world = World::new().await;
    let worker =
        world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| Ok(ctx.activity(&DOUBLE, n).await?));
    let own = Queue::at_least_once(QueueName::new("workflow/main").unwrap());
    let activities = Queue::at_least_once(QueueName::new(DEFAULT_ACTIVITY_QUEUE).unwrap());
    for queue in [&own, &activities] {
        world.store().pause(queue).await.unwrap();
    }
    let worker = Background::run(worker);
    let run = world.start().await;
    let diagnosis = run.diagnose().await.unwrap();
    assert_eq!(diagnosis.progress, RunProgress::Paused { queue: "workflow/main".into() });
    assert_eq!(diagnosis.to_string(), "its queue `workflow/main` is paused");
    world.store().resume(&own).await.unwrap();
    assert_eq!(noted(&run, "paused").await, "queue `activities` is paused");
    world.store().resume(&activities).await.unwrap();
    assert_eq!(patiently(run.wait()).await.unwrap(), 2);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_that_no_worker_knows_is_named() {
    const UNKNOWN: Activity<(), u64> = Activity::new("unknown");
    let world = World::new().await;
    let worker = Background::run(
        world.worker().workflow(&MAIN, async |ctx: Ctx, _: u64| Ok(ctx.activity(&UNKNOWN, ()).await?)),
    );
    let run = world.start().await;
    let note = noted(&run, "handler").await;
    assert_eq!(note, "no worker here has a handler for kind `unknown`");
    let shown = run.diagnose().await.unwrap().to_string();
    assert!(shown.contains("activity `unknown` since "), "{shown}");
    worker.stop().await;
}

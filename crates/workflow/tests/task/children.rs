//! Children: started, signalled, and still running after their parent has ended.

use std::time::Duration;

use tidemill_core::workflow::{ParentClose, RunId, RunStatus};
use tidemill_worker::WorkerBuilder;
use tidemill_workflow::{ChildError, Ctx, RunWorkflows, StartWorkflows, Workflow, WorkflowError};

use crate::world::{Background, DOUBLE, GO, MAIN, World, ms, patiently, until};

const CHILD: Workflow<u64, u64> = Workflow::new("child");
const LAZY: Workflow<u64, u64> = Workflow::new("lazy");
const HOUR: Duration = Duration::from_secs(3600);

async fn child(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    match n {
        0 => Err(WorkflowError::failed("zero")),
        n => Ok(ctx.activity(&DOUBLE, n).await?),
    }
}

async fn lazy(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    ctx.sleep(HOUR).await?;
    Ok(n)
}

fn worker(world: &World) -> WorkerBuilder {
    world.worker().workflow(&CHILD, child).workflow(&LAZY, lazy)
}

/// Waits until the run has ended and returns its status.
async fn ended(world: &World, run: &RunId) -> RunStatus {
    until(async || {
        let info = world.store().get_run(run).await.unwrap();
        info.map(|info| info.status).filter(|status| status.is_closed())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_gets_its_childrens_results_and_errors() {
    let world = World::new().await;
    let worker = Background::run(worker(&world).workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let good = ctx.child(&CHILD, 20 + n).await?;
        let bad = ctx.child(&CHILD, 0).await.unwrap_err();
        assert!(matches!(bad, ChildError::Failed { message, .. } if message == "zero"));
        let started = ctx.child(&CHILD, 5).start().await?;
        assert_eq!(started.run_id(), &ctx.run_id().child(3));
        Ok(good + started.await?)
    }));
    let run = world.start().await;
    assert_eq!(patiently(run.wait()).await.unwrap(), 52);
    let first = world.info(&run.id().child(1)).await;
    assert_eq!((first.parent.unwrap().run, first.status), (run.id().clone(), RunStatus::Completed));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_id_is_taken_is_an_error_of_the_parent() {
    let world = World::new().await;
    let taken = world.client.workflow(&CHILD, 4).id("taken").start().await.unwrap();
    let worker = Background::run(worker(&world).workflow(&MAIN, async |ctx: Ctx, _: u64| {
        let error = ctx.child(&CHILD, 1).id("taken".parse()?).await.unwrap_err();
        assert!(error.to_string().contains("run `taken` exists already"), "{error}");
        Ok(1)
    }));
    let run = world.start().await;
    assert_eq!(patiently(run.wait()).await.unwrap(), 1);
    assert_eq!(patiently(taken.wait()).await.unwrap(), 8);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_hears_of_a_child_that_was_ended_from_outside() {
    let world = World::new().await;
    let worker = Background::run(worker(&world).workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let terminated = ctx.child(&LAZY, n).await.unwrap_err();
        assert!(matches!(terminated, ChildError::Terminated { .. }), "{terminated}");
        let cancelled = ctx.child(&LAZY, n).await.unwrap_err();
        assert!(matches!(cancelled, ChildError::Cancelled { .. }), "{cancelled}");
        Ok(n)
    }));
    let run = world.start().await;
    let exists = async |child: &RunId| {
        until(async || world.store().get_run(child).await.unwrap().map(drop)).await;
        world.client.run_handle(&LAZY, child.clone())
    };
    exists(&run.id().child(1)).await.terminate("out of the way").await.unwrap();
    exists(&run.id().child(2)).await.cancel().await.unwrap();
    assert_eq!(patiently(run.wait()).await.unwrap(), 1);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_a_parent_that_ends_are_treated_as_was_said() {
    let world = World::new().await;
    let worker = Background::run(worker(&world).workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let mut handles = Vec::new();
        for policy in [ParentClose::Terminate, ParentClose::Cancel, ParentClose::Abandon] {
            handles.push(ctx.child(&LAZY, n).parent_close(policy).start().await?);
        }
        let detached = ctx.child(&LAZY, n).detach().await?;
        assert_eq!(detached, ctx.run_id().child(4));
        ctx.signals(&GO).recv().await?;
        Ok(n)
    }));
    for by_termination in [false, true] {
        let run = world.start().await;
        until(async || world.store().get_run(&run.id().child(4)).await.unwrap().map(drop)).await;
        if by_termination {
            run.terminate("enough").await.unwrap();
        } else {
            run.signal(&GO, &1).await.unwrap();
        }
        assert!(ended(&world, run.id()).await.is_closed());
        assert_eq!(ended(&world, &run.id().child(1)).await, RunStatus::Terminated);
        assert_eq!(ended(&world, &run.id().child(2)).await, RunStatus::Cancelled);
        for child in [3, 4] {
            assert_eq!(world.info(&run.id().child(child)).await.status, RunStatus::Running);
        }
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_nobody_waits_for_any_more_is_asked_to_cancel() {
    let world = World::new().await;
    let worker = Background::run(worker(&world).workflow(&MAIN, async |ctx: Ctx, n: u64| {
        tidemill_workflow::select! {
            end = ctx.child(&LAZY, n) => { end?; },
            _ = ctx.sleep(ms(1)) => {},
        }
        ctx.sleep(HOUR).await?;
        Ok(n)
    }));
    let run = world.start().await;
    assert_eq!(ended(&world, &run.id().child(1)).await, RunStatus::Cancelled);
    run.terminate("").await.unwrap();
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_loses_a_select_is_cancelled_even_if_it_was_to_outlive_its_parent_which_ends() {
    let world = World::new().await;
    let worker = Background::run(worker(&world).workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let kept = ctx.child(&LAZY, n).parent_close(ParentClose::Abandon).start().await?;
        let unselected = ctx.child(&LAZY, n).parent_close(ParentClose::Abandon).start().await?;
        tidemill_workflow::select! {
            end = unselected => { end?; },
            _ = ctx.sleep(ms(1)) => {},
        }
        // Both handles are dropped in the commit that ends the run, but only one child was
        // unselected.
        drop(kept);
        Ok(n)
    }));
    let run = world.start().await;
    assert_eq!(patiently(run.wait()).await.unwrap(), 1);
    assert_eq!(ended(&world, &run.id().child(2)).await, RunStatus::Cancelled);
    assert_eq!(world.info(&run.id().child(1)).await.status, RunStatus::Running);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_signals_another_and_hears_whether_it_arrived() {
    const LISTENS: Workflow<(), u64> = Workflow::new("listens");
    let world = World::new().await;
    let worker = world.worker().workflow(&LISTENS, async |ctx: Ctx, ()| Ok(ctx.signals(&GO).recv().await?));
    let worker = Background::run(worker.workflow(&MAIN, async |ctx: Ctx, n: u64| {
        ctx.signal(&"ear".parse()?, &GO, &(n + 6)).await?;
        let error = ctx.signal(&"nobody".parse()?, &GO, &n).await.unwrap_err();
        assert!(error.to_string().contains("there is no run `nobody`"), "{error}");
        Ok(n)
    }));
    let ear = world.client.workflow(&LISTENS, ()).id("ear").start().await.unwrap();
    let run = world.start().await;
    assert_eq!(patiently(ear.wait()).await.unwrap(), 7);
    assert_eq!(patiently(run.wait()).await.unwrap(), 1);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_child_outlives_a_parent_that_ends_in_the_moment_it_is_started() {
    let world = World::new().await;
    let worker = Background::run(worker(&world).workflow(&MAIN, async |ctx: Ctx, n: u64| {
        ctx.spawn(ctx.child(&LAZY, n));
        Ok(n)
    }));
    let mut runs = Vec::new();
    for _ in 0..100 {
        runs.push(world.start().await);
    }
    for run in &runs {
        patiently(run.wait()).await.unwrap();
    }
    until(async || {
        let open = tidemill_core::store::runs::ListRunsParams {
            status: Some(RunStatus::Running),
            limit: 9,
            ..Default::default()
        };
        let queues = world.store().list_queues().await.unwrap();
        let idle = queues.iter().all(|info| info.ready + info.scheduled + info.running == 0);
        (idle && world.store().list_runs(open).await.unwrap().items.is_empty()).then_some(())
    })
    .await;
    worker.stop().await;
}

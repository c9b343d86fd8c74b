//! From a start to a result.

use tidemill_core::workflow::RunStatus;
use tidemill_workflow::{Ctx, RunError, RunWorkflows, StartWorkflows, Workflow, WorkflowError};

use crate::world::{Background, DOUBLE, GO, MAIN, World, ms, patiently};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_from_activity_to_activity_to_its_result() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let n = ctx.activity(&DOUBLE, n).await?;
        let n = ctx.activity(&DOUBLE, n).await?;
        Ok(ctx.activity(&DOUBLE, n).await? + 1)
    }));
    let run = world.start().await;
    assert!(run.created());
    assert_eq!(patiently(run.wait()).await.unwrap(), 9);
    let info = world.info(run.id()).await;
    assert_eq!((info.status, info.length), (RunStatus::Completed, 8));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_fire_and_signals_arrive() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        ctx.sleep(ms(30)).await?;
        let more = ctx.signals(&GO).recv().await?;
        Ok(n + more)
    }));
    let run = world.start().await;
    run.signal(&GO, &41).await.unwrap();
    assert_eq!(patiently(run.wait()).await.unwrap(), 42);
    assert!(matches!(run.signal(&GO, &1).await, Err(RunError::Closed { status: RunStatus::Completed, .. })));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_no_result_is_a_typed_error() {
    const FAILS: Workflow<bool, ()> = Workflow::new("fails");
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&FAILS, async |ctx: Ctx, fails: bool| {
        if fails {
            return Err(WorkflowError::failed("too bad"));
        }
        ctx.sleep(std::time::Duration::from_secs(3600)).await?;
        Ok(())
    }));
    let failed = world.client.workflow(&FAILS, true).start().await.unwrap();
    let error = patiently(failed.wait()).await.unwrap_err();
    assert!(matches!(&error, RunError::Failed { message, .. } if message == "too bad"), "{error}");
    let cancelled = world.client.workflow(&FAILS, false).start().await.unwrap();
    cancelled.cancel_with_reason("not needed").await.unwrap();
    assert!(matches!(patiently(cancelled.wait()).await, Err(RunError::Cancelled(_))));
    let terminated = world.client.workflow(&FAILS, false).start().await.unwrap();
    terminated.terminate("in the way").await.unwrap();
    let error = patiently(terminated.wait()).await.unwrap_err();
    assert!(matches!(&error, RunError::Terminated { reason, .. } if reason == "in the way"), "{error}");
    let missing = world.client.run_handle(&FAILS, "nobody".parse().unwrap());
    assert!(matches!(missing.wait().await, Err(RunError::NotFound(_))));
    assert!(matches!(missing.signal(&GO, &1).await, Err(RunError::NotFound(_))));
    assert!(matches!(missing.terminate("").await, Err(RunError::NotFound(_))));
    worker.stop().await;
}

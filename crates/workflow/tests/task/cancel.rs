//! Cancel requests.

use std::time::Duration;

use tidemill_core::workflow::RunStatus;
use tidemill_workflow::{Ctx, RunError, RunWorkflows};

use crate::world::{Background, DOUBLE, MAIN, World, patiently};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_cleans_up_behind_a_shield() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        if ctx.sleep(HOUR).await.is_err() {
            ctx.shielded().activity(&DOUBLE, n).await?;
            ctx.set_attribute("cleaned", &true);
            assert!(ctx.activity(&DOUBLE, n).await.unwrap_err().is_cancelled());
        }
        ctx.sleep(HOUR).await?;
        Ok(n)
    }));
    let run = world.start().await;
    run.cancel_with_reason("changed my mind").await.unwrap();
    assert!(matches!(patiently(run.wait()).await, Err(RunError::Cancelled(_))));
    let info = world.info(run.id()).await;
    assert_eq!((info.status, info.next_timer), (RunStatus::Cancelled, None));
    assert_eq!(info.attributes.values().next().unwrap().as_str(), "true");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_listens_decides_what_a_cancel_request_means() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        tidemill_workflow::select! {
            _ = ctx.sleep(HOUR) => Ok(n),
            _ = ctx.cancelled() => Ok(ctx.shielded().activity(&DOUBLE, 21).await?),
        }
    }));
    let run = world.start().await;
    run.cancel().await.unwrap();
    assert_eq!(patiently(run.wait()).await.unwrap(), 42);
    worker.stop().await;
}

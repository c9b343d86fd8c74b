//! Runs outlive the workers and processes that run them.

use std::sync::atomic::{AtomicU32, Ordering};

use tidemill_sqlite::SqliteOptions;
use tidemill_workflow::{Ctx, RunWorkflows, StartWorkflows, WorkflowError};

use crate::world::{Background, DOUBLE, GO, MAIN, World, patiently, until};

async fn stepwise(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    let mut total = n;
    for _ in 0..3 {
        let by = ctx.signals(&GO).recv().await?;
        total = ctx.activity(&DOUBLE, total).await? + by;
    }
    Ok(total)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_in_another_process_after_every_step() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let run = World::on(SqliteOptions::file(&path)).await.start().await.id().clone();
    for step in 1..=3_u64 {
        let world = World::on(SqliteOptions::file(&path)).await;
        let worker = Background::run(world.worker().workflow(&MAIN, stepwise));
        let handle = world.client.run_handle(&MAIN, run.clone());
        handle.signal(&GO, &step).await.unwrap();
        // Consumed: the signal, then the end of the activity.
        until(async || {
            let info = handle.info().await.unwrap();
            (info.status.is_closed() || info.cursor > step * 4 - 1).then_some(())
        })
        .await;
        worker.stop().await;
    }
    let world = World::on(SqliteOptions::file(&path)).await;
    let result = patiently(world.client.run_handle(&MAIN, run).wait()).await.unwrap();
    assert_eq!(result, ((2 + 1) * 2 + 2) * 2 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_run_is_not_started_again_and_a_run_without_a_cache_is_for_every_task() {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    let code = async |ctx: Ctx, n: u64| {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        let n = ctx.activity(&DOUBLE, n).await?;
        Ok(ctx.activity(&DOUBLE, n).await?)
    };
    for (cache, begun) in [(10, 1), (0, 3)] {
        let world = World::new().await;
        let worker = Background::run(world.worker().workflow(&MAIN, code).workflow_cache(cache));
        assert_eq!(patiently(world.start().await.wait()).await.unwrap(), 4);
        worker.stop().await;
        assert_eq!(BEGUN.swap(0, Ordering::SeqCst), begun);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_runs() {
    let world = World::new().await;
    let workers = [1, 2].map(|_| Background::run(world.worker().workflow(&MAIN, stepwise)));
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(world.start().await);
    }
    for step in 1..=3_u64 {
        for run in &runs {
            run.signal(&GO, &step).await.unwrap();
        }
    }
    for run in &runs {
        assert_eq!(patiently(run.wait()).await.unwrap(), 19);
    }
    for worker in workers {
        worker.stop().await;
    }
}

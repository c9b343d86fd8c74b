//! Joins of very many branches.

use tidemill_workflow::{Ctx, RunWorkflows};

use crate::world::{Background, DOUBLE, MAIN, World, patiently};

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_activities_are_joined() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, _: u64| {
        let all = (0..10_000).map(|n| ctx.activity(&DOUBLE, n));
        let done: Result<Vec<_>, _> = ctx.join_all(all).await.into_iter().collect();
        Ok(done?.iter().sum())
    }));
    let run = world.start().await;
    assert_eq!(patiently(run.wait()).await.unwrap(), 99_990_000);
    worker.stop().await;
}

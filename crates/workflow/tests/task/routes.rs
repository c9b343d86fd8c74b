//! Runs with a route.

use tidemill_workflow::{Ctx, RunProgress, RunWorkflows, StartWorkflows, Workflow};

use crate::world::{Background, MAIN, World, patiently};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_route_takes_what_is_sent_there_and_children_follow() {
    const CHILD: Workflow<u64, u64> = Workflow::new("child");
    let world = World::new().await;
    let worker = world.worker().workflow(&CHILD, async |_: Ctx, n: u64| Ok(n + 1));
    let worker = worker.workflow(&MAIN, async |ctx: Ctx, n: u64| Ok(ctx.child(&CHILD, n).await? * 10));
    let worker = Background::run(worker.route("eu-west"));
    let near = world.client.workflow(&MAIN, 1).route("eu-west").start().await.unwrap();
    let far = world.start().await;
    assert_eq!(patiently(near.wait()).await.unwrap(), 20);
    let queue = world.info(&near.id().child(1)).await.queue.name;
    assert_eq!(queue.as_str(), "workflow/child/eu-west");
    let why = far.diagnose().await.unwrap().progress;
    assert_eq!(why, RunProgress::Queued { queue: "workflow/main".into() });
    worker.stop().await;
}

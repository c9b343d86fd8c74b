//! Runs that other programs start with a plain JSON message.

use tidemill_core::job::JobState;
use tidemill_core::store::{Due, EnqueueParams, NewJob};
use tidemill_core::workflow::WorkflowName;
use tidemill_core::{Envelope, JobId};
use tidemill_workflow::{Ctx, RunWorkflows, StartWorkflows};

use crate::world::{Background, DOUBLE, MAIN, World, patiently, until};

async fn publish(world: &World, id: &str, key: &str) {
    let message = format!(
        r#"{{"id":"{id}","workflowName":"main","version":"1.0.0","payload":4,"idempotencyKey":"{key}","createdAt":1}}"#
    );
    let envelope = Envelope::read(message.into()).unwrap();
    let job = NewJob {
        id: JobId::new(id).unwrap(),
        envelope: envelope.bytes().clone(),
        due: Due::Now,
        tracked: true,
        generated_id: false,
        links: Default::default(),
    };
    let queue = WorkflowName::new("main").unwrap().queue(None);
    world.store().enqueue(EnqueueParams { queue: &queue, jobs: &[job] }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_the_seeds_format_starts_a_run_once_per_key() {
    let world = World::new().await;
    let worker = Background::run(
        world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| Ok(ctx.activity(&DOUBLE, n).await? + 1)),
    );
    publish(&world, "run-123", "order-456").await;
    let run = world.client.run_handle(&MAIN, "run-123".parse().unwrap());
    until(async || run.info().await.ok()).await;
    assert_eq!(patiently(run.wait()).await.unwrap(), 9);
    assert_eq!(world.info(run.id()).await.key.as_deref(), Some("order-456"));
    publish(&world, "run-124", "order-456").await;
    let other = JobId::new("run-124").unwrap();
    until(async || world.store().get_job(&other).await.unwrap().is_none().then_some(())).await;
    assert!(world.store().get_run(&"run-124".parse().unwrap()).await.unwrap().is_none());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_start_a_run_goes_to_the_dead_letters() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |_: Ctx, n: u64| Ok(n)));
    publish(&world, "run-125", &"k".repeat(300)).await;
    let job = JobId::new("run-125").unwrap();
    let dead = until(async || {
        let info = world.store().get_job(&job).await.unwrap()?;
        (info.state == JobState::Dead).then_some(info.data)
    })
    .await;
    assert!(String::from_utf8_lossy(&dead).contains("invalid_payload"));
    worker.stop().await;
}

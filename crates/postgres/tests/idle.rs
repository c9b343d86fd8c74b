//! A thousand idle claims in one process cost about as much as one.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::{Queue, QueueName, Store};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::idle_claims::{idling_costs_one_command_per_pause, one_job_costs_two_commands};
use tidemill_testkit::servers::shared_postgres;
use world::connect;

async fn scene(url: &str) -> QueueHarness {
    let store: Arc<dyn Store> = Arc::new(connect(url).await);
    let queue = Queue::at_least_once(QueueName::new("mail").unwrap());
    // A queue that was never used has to be looked up first.
    store.resume(&queue).await.unwrap();
    QueueHarness::new(store, queue)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_from_the_same_process_costs_a_thousand_claims_two_statements() {
    let scene = scene(&shared_postgres().database().unwrap()).await;
    // One insert for the job. No other process is notified, because a claim of this process takes
    // the job.
    one_job_costs_two_commands(&scene, 1, async |job| {
        scene.enqueue(job).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_from_another_process_costs_a_thousand_claims_two_statements() {
    let url = shared_postgres().database().unwrap();
    let (here, elsewhere) = (scene(&url).await, scene(&url).await);
    one_job_costs_two_commands(&here, 0, async |job| {
        elsewhere.enqueue(job).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_claims_share_one_look_per_pause() {
    let scene = scene(&shared_postgres().database().unwrap()).await;
    idling_costs_one_command_per_pause(&scene, Duration::from_secs(4)).await;
}

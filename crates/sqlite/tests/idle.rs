//! A thousand idle claims in one process cost about as much as one.

mod database_dir;

use std::time::Duration;

use database_dir::{DatabaseDir, scene};
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tidemill_testkit::idle_claims::{idling_costs_one_command_per_pause, one_job_costs_two_commands};

#[tokio::test(flavor = "multi_thread")]
async fn one_job_from_the_same_process_costs_a_thousand_claims_two_calls() {
    let dir = DatabaseDir::new();
    let stores = [dir.open().await, SqliteStore::open(SqliteOptions::memory()).await.unwrap()];
    for store in stores {
        let scene = scene(&store);
        one_job_costs_two_commands(&scene, 1, async |job| {
            scene.enqueue(job).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_from_another_process_costs_a_thousand_claims_two_calls() {
    let dir = DatabaseDir::new();
    let (here, elsewhere) = (dir.open().await, dir.open().await);
    let elsewhere = scene(&elsewhere);
    one_job_costs_two_commands(&scene(&here), 0, async |job| {
        elsewhere.enqueue(job).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_claims_ask_nothing() {
    let dir = DatabaseDir::new();
    idling_costs_one_command_per_pause(&scene(&dir.open().await), Duration::from_secs(2)).await;
}

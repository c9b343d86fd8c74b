//! Forged wake-ups about running tasks and activities.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidemill::workflow::{RunWorkflows, StartWorkflows};
use tidemill::{Activity, Ctx, Fail, Worker, Workflow, WorkflowError};
use tokio_util::sync::CancellationToken;

use crate::place::Place;

const FOR_EVER: Duration = Duration::from_secs(120);

/// Activities that the run awaits one after the other, so that as many tasks run while wake-ups
/// arrive.
const STEPS: u64 = 12;

const STEP: Activity<u64, u64> = Activity::new("step");
const STEPPED: Workflow<u64, u64> = Workflow::new("stepped");

async fn stepped(ctx: Ctx, steps: u64) -> Result<u64, WorkflowError> {
    let mut total = 0;
    for step in 0..steps {
        total += ctx.activity(&STEP, step).await?;
    }
    Ok(total)
}

async fn no_run_ends_and_no_step_runs_twice(place: Place) {
    let (client, runs, stop) = (&place.client, Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let counted = runs.clone();
    let step = move |step: u64| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, Fail>(step)
        }
    };
    let worker = Worker::builder(client).activity(&STEP, step).workflow(&STEPPED, stepped);
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let run = client.workflow(&STEPPED, STEPS).id("named").start().await.unwrap();
    let forge = async {
        loop {
            for word in ["cancel", "lost", "finished"] {
                place.publish(&format!("{word} named!task")).await;
                for step in 1..=STEPS {
                    place.publish(&format!("{word} named!{step}")).await;
                }
            }
        }
    };
    let total = tokio::select! {
        total = tokio::time::timeout(FOR_EVER, run.wait()) => total.unwrap().unwrap(),
        () = forge => unreachable!(),
    };
    assert_eq!(total, (0..STEPS).sum::<u64>());
    assert_eq!(runs.load(Ordering::SeqCst), STEPS);
    stop.cancel();
    let report = worker.await.unwrap().unwrap();
    assert_eq!((report.total.cancelled, report.total.lost), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_ends_on_sqlite() {
    no_run_ends_and_no_step_runs_twice(Place::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_ends_on_redis() {
    no_run_ends_and_no_step_runs_twice(Place::redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_ends_on_a_cluster() {
    no_run_ends_and_no_step_runs_twice(Place::cluster().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_ends_on_postgres() {
    no_run_ends_and_no_step_runs_twice(Place::postgres().await).await;
}

//! One run at a time: sixteen round trips for three activities, however long they take.

use tidemill::workflow::{RunWorkflows, StartWorkflows};
use tidemill::{Activity, Ctx, Fail, Worker, Workflow, WorkflowError};

use crate::world::{Background, ms, patiently, stores};

const THREE: Workflow<u64, u64> = Workflow::new("three");
const SLOW: Activity<u64, u64> = Activity::new("slow");

/// The cheapest of up to this many runs counts. Maintenance of the worker adds round trips to some,
/// and so does a busy machine, on which a claim looks again before its job is there.
const MAX_RUNS: usize = 100;

async fn three(ctx: Ctx, mut number: u64) -> Result<u64, WorkflowError> {
    for _ in 0..3 {
        number = ctx.activity(&SLOW, number).await?;
    }
    Ok(number)
}

/// Takes so long that a read of the result before its announcement would find nothing.
async fn slow(number: u64) -> Result<u64, Fail> {
    tokio::time::sleep(ms(10)).await;
    Ok(number + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_three_activities_costs_sixteen_trips() {
    for (store, client) in stores("trips").await {
        let worker = Background::run(Worker::builder(&client).workflow(&THREE, three).activity(&SLOW, slow));
        let mut least = u64::MAX;
        for _ in 0..MAX_RUNS {
            let before = client.store().commands();
            let run = client.workflow(&THREE, 0).start().await.unwrap();
            assert_eq!(patiently(run.wait()).await.unwrap(), 3);
            least = least.min(client.store().commands() - before);
            if least <= 16 {
                break;
            }
        }
        println!("a run of three activities on {store}: {least} trips");
        assert!(least <= 16, "{least} trips on {store}");
        worker.stop().await;
    }
}

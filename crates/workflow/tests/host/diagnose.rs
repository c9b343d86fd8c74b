//! Why a run is not moving.

use std::time::Duration;

use tidemill_workflow::{Activity, Ctx, RunWorkflows, Why};

use crate::world::{Background, MAIN, World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_what_it_waits_for_and_since_when() {
    const NOWHERE: Activity<(), u64> = Activity::new("nowhere").queue("nobody");
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let (slept, ran) =
            tidemill_workflow::join!(ctx.sleep(Duration::from_secs(3600)), ctx.activity(&NOWHERE, ()));
        slept?;
        Ok(n + ran?)
    }));
    let run = world.start().await;
    let diagnosis = until(async || {
        let diagnosis = run.diagnose().await.unwrap();
        (diagnosis.why == Why::Waits).then_some(diagnosis)
    })
    .await;
    let waits: Vec<_> = diagnosis.waits.iter().map(|wait| wait.what.as_str()).collect();
    assert!(waits[0].starts_with("timer at 2"), "{waits:?}");
    assert_eq!(waits[1], "activity `nowhere`");
    assert!(diagnosis.waits[0].since.0 > 0);
    worker.stop().await;
}

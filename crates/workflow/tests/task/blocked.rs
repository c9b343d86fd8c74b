//! Blocked runs: they do not fail, and continue when the cause is removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::limits::Limits;
use tidemill_core::store::runs::{Delivery, EntryKind, StoredEntry};
use tidemill_core::workflow::{Json, RunStatus};
use tidemill_worker::Worker;
use tidemill_workflow::{Ctx, RunHandle, RunProgress, RunWorkflows, StartWorkflows, Workflow};

use crate::world::{Background, DOUBLE, GO, MAIN, World, blocked, ms, patiently, until};

/// Waits until the journal has one commit.
async fn committed(world: &World, run: &RunHandle<u64>) {
    until(async || (world.info(run.id()).await.cursor > 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_does_not_agree_with_the_journal_blocks_the_run_until_the_right_code_is_there() {
    let world = World::new().await;
    let right = async |ctx: Ctx, _: u64| Ok(ctx.signals(&GO).recv().await? + ctx.activity(&DOUBLE, 1).await?);
    let first = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, _: u64| {
        let sleep = ctx.spawn({
            let ctx = ctx.clone();
            async move { ctx.sleep(Duration::from_secs(3600)).await }
        });
        let got = ctx.signals(&GO).recv().await?;
        drop(sleep);
        Ok(got)
    }));
    let run = world.start().await;
    committed(&world, &run).await;
    first.stop().await;
    run.signal(&GO, &40).await.unwrap();
    let wrong = Background::run(world.worker().workflow(&MAIN, right));
    let report = blocked(&run).await;
    for part in ["does not agree with the journal", "entry 2", "start timer (seq 1)", "signal `go`"] {
        assert!(report.contains(part), "{report}");
    }
    assert_eq!(world.info(run.id()).await.status, RunStatus::Running);
    wrong.stop().await;
    let healed = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, _: u64| {
        let _sleep = ctx.spawn({
            let ctx = ctx.clone();
            async move { ctx.sleep(Duration::from_secs(3600)).await }
        });
        Ok(ctx.signals(&GO).recv().await? + ctx.activity(&DOUBLE, 1).await?)
    }));
    assert_eq!(patiently(run.wait()).await.unwrap(), 42);
    healed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_no_worker_knows_waits_for_one() {
    const NEXT: Workflow<u64, u64> = Workflow::new("main").version("2.0.0");
    let world = World::new().await;
    let old = Background::run(world.worker().workflow(&MAIN, async |_: Ctx, n: u64| Ok(n)));
    let run = world.client.workflow(&NEXT, 5).start().await.unwrap();
    assert_eq!(blocked(&run).await, "no worker for version 2.0.0 of workflow `main`");
    let diagnosis = run.diagnose().await.unwrap().to_string();
    assert!(diagnosis.contains("it is blocked: no worker for version 2.0.0"), "{diagnosis}");
    let new = Background::run(world.worker().workflow(&NEXT, async |_: Ctx, n: u64| Ok(n * 2)));
    assert_eq!(patiently(run.wait()).await.unwrap(), 10);
    let still = world.start().await;
    assert_eq!(patiently(still.wait()).await.unwrap(), 1);
    old.stop().await;
    new.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_await_is_reported_with_its_place() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let n = ctx.activity(&DOUBLE, n).await?;
        tokio::time::sleep(ms(1)).await;
        Ok(n)
    }));
    let run = world.start().await;
    let report = blocked(&run).await;
    for part in ["awaits something foreign after activity `double`", "blocked.rs"] {
        assert!(report.contains(part), "{report}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_blocks_the_run_and_it_goes_on_when_the_panic_is_gone() {
    static FIXED: AtomicBool = AtomicBool::new(false);
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |_: Ctx, n: u64| {
        assert!(FIXED.load(Ordering::SeqCst), "not fixed yet");
        Ok(n)
    }));
    let run = world.start().await;
    let report = blocked(&run).await;
    assert!(report.contains("workflow `main` panicked: not fixed yet at "), "{report}");
    FIXED.store(true, Ordering::SeqCst);
    assert_eq!(patiently(run.wait()).await.unwrap(), 1);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_does_not_fit_blocks_the_run_and_says_which() {
    let world = World::new().await;
    let worker = Background::run(
        world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| Ok(n + ctx.signals(&GO).recv().await?)),
    );
    let text = Json::from_value("seven").unwrap();
    let input = world.client.untyped_workflow("main", text.clone()).start().await.unwrap();
    let report = blocked(&input).await;
    assert!(report.starts_with("the input of workflow `main` does not fit its type"), "{report}");
    let run = world.start().await;
    run.signal_untyped("go", text).await.unwrap();
    let report = blocked(&run).await;
    assert!(report.starts_with("the payload of signal `go` does not fit its type"), "{report}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_beyond_its_limit_blocks_the_run_until_the_limit_is_raised() {
    let world = World::new().await;
    let code = async |ctx: Ctx, n: u64| {
        let mut total = 0;
        while total < n {
            total += ctx.activity(&DOUBLE, 1).await?;
        }
        Ok(total)
    };
    let worker = Background::run(world.worker().workflow(&MAIN, code));
    let run = world.client.workflow(&MAIN, 40).journal_limit(20).start().await.unwrap();
    let report = blocked(&run).await;
    assert!(report.contains("21 entries, and 20 are allowed: the run must continue as new"), "{report}");
    worker.stop().await;
    let raised = Background::run(world.worker().workflow(&MAIN, code).journal_limit(1000));
    assert_eq!(patiently(run.wait()).await.unwrap(), 40);
    raised.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_entry_blocks_its_run_and_no_other() {
    let world = World::new().await;
    let worker = Background::run(
        world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| Ok(n + ctx.signals(&GO).recv().await?)),
    );
    let (run, other) = (world.start().await, world.start().await);
    let entry = Bytes::from_static(br#"{"at":1,"event":{"nonsense":1}}"#);
    let written = StoredEntry { kind: EntryKind::Message, bytes: entry };
    let damaged = Delivery { run: run.id().clone(), entry: written, id: None, seq: None };
    world.store().deliver(&[damaged]).await.unwrap();
    let report = blocked(&run).await;
    assert!(report.contains("the journal makes no sense at entry"), "{report}");
    other.signal(&GO, &1).await.unwrap();
    assert_eq!(patiently(other.wait()).await.unwrap(), 2);
    run.terminate("it cannot be read").await.unwrap();
    assert!(matches!(run.diagnose().await.unwrap().progress, RunProgress::Ended(RunStatus::Terminated)));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_large_blocks_the_run_until_a_worker_allows_more() {
    const LARGE: Workflow<usize, String> = Workflow::new("large");
    let world = World::new().await;
    let code = async |_: Ctx, size: usize| Ok("x".repeat(size));
    let narrow = world.client.clone().limits(Limits { payload: 100 });
    let strict = Background::run(Worker::builder(&narrow).workflow(&LARGE, code));
    let run = world.client.workflow(&LARGE, 200).start().await.unwrap();
    let reason = blocked(&run).await;
    assert_eq!(reason, "the output of workflow `large` has 202 bytes, and at most 100 are allowed");
    strict.stop().await;
    let generous = Background::run(Worker::builder(&world.client).workflow(&LARGE, code));
    assert_eq!(patiently(run.wait()).await.unwrap().len(), 200);
    generous.stop().await;
}

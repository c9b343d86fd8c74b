//! Runs that continue as new.

use tidemill_core::workflow::{EntryContent, RunEvent};
use tidemill_workflow::testing::replay_every_prefix;
use tidemill_workflow::{
    Ctx, Program, Programs, RunError, RunWorkflows, StartWorkflows, Workflow, WorkflowError,
};

use crate::world::{Background, DOUBLE, GO, World, patiently};

/// Takes the sum so far and how many signals to receive.
const SUM: Workflow<(u64, u64), u64> = Workflow::new("sum");

async fn sum(ctx: Ctx, (total, left): (u64, u64)) -> Result<u64, WorkflowError> {
    if left == 0 {
        return Ok(total);
    }
    let got = ctx.signals(&GO).recv().await?;
    let same = ctx.activity(&DOUBLE, got).await? / 2;
    ctx.continue_as_new(&(total + same, left - 1))
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_that_race_with_continuing_are_neither_lost_nor_doubled_nor_reordered() {
    const SIGNALS: u64 = 60;
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&SUM, sum));
    let run = world.client.workflow(&SUM, (0, SIGNALS)).start().await.unwrap();
    for n in 1..=SIGNALS {
        run.signal(&GO, &n).await.unwrap();
    }
    assert_eq!(patiently(run.wait()).await.unwrap(), SIGNALS * (SIGNALS + 1) / 2);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_of_a_run_that_continued_says_where_it_begins_and_replays() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&SUM, sum));
    let run = world.client.workflow(&SUM, (0, 3)).start().await.unwrap();
    for n in 1..=3 {
        run.signal(&GO, &n).await.unwrap();
    }
    assert_eq!(patiently(run.wait()).await.unwrap(), 6);
    let journal = run.journal().await.unwrap();
    assert!(journal.base > 0);
    let EntryContent::Event(RunEvent::Started(started)) = &journal.entries[0].content else { panic!() };
    assert_eq!(started.continued, 3);
    let mut programs = Programs::new();
    programs.add(Program::new(&SUM, sum));
    replay_every_prefix(&programs, &journal).unwrap();
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_cache_continues_all_the_same() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&SUM, sum).workflow_cache(0));
    let run = world.client.workflow(&SUM, (0, 5)).start().await.unwrap();
    for n in 1..=5 {
        run.signal(&GO, &n).await.unwrap();
    }
    assert_eq!(patiently(run.wait()).await.unwrap(), 15);
    worker.stop().await;
}

/// Continues as new forever.
const TREADMILL: Workflow<u64, ()> = Workflow::new("treadmill");

async fn treadmill(ctx: Ctx, round: u64) -> Result<(), WorkflowError> {
    ctx.sleep(std::time::Duration::from_millis(1)).await?;
    ctx.continue_as_new(&(round + 1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_continues_as_new_without_pause_can_be_terminated() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&TREADMILL, treadmill));
    for _ in 0..5 {
        let run = world.client.workflow(&TREADMILL, 0).start().await.unwrap();
        crate::world::until(async || (run.journal().await.unwrap().base > 10).then_some(())).await;
        patiently(run.terminate("enough")).await.unwrap();
        assert!(matches!(run.wait().await, Err(RunError::Terminated { .. })));
    }
    worker.stop().await;
}

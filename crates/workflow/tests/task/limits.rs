//! Limits: the bytes of a task's new events, and the retention of ended runs.

use std::time::Duration;

use tidemill_core::store::runs::{MAX_TASK_EVENT_BYTES, PruneRunsParams};
use tidemill_core::workflow::{Command, EntryContent, RunEvent, RunId};
use tidemill_workflow::{Ctx, RunHandle, RunWorkflows, Signal, StartWorkflows, Workflow, WorkflowError};

use crate::world::{Background, GO, MAIN, World, patiently, until};

const LETTER: Signal<String> = Signal::new("letter");
const LETTERS: u64 = 9;

/// Two and a half of these fill a task.
const LETTER_BYTES: usize = MAX_TASK_EVENT_BYTES * 2 / 5;

async fn read_letters(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
    let mut read = 0;
    for _ in 0..LETTERS {
        read += ctx.signals(&LETTER).recv().await?.len() as u64;
    }
    Ok(read)
}

/// How many letters each commit has consumed.
async fn shares(run: &RunHandle<u64>) -> Vec<usize> {
    let journal = run.journal().await.unwrap();
    let is_letter = |position: u64| {
        let entry = &journal.entries[(position - journal.base - 1) as usize];
        matches!(entry.content, EntryContent::Event(RunEvent::Signal(_)))
    };
    let (mut from, mut shares) = (journal.base + 1, Vec::new());
    for entry in &journal.entries {
        if let EntryContent::Commit(commit) = &entry.content {
            shares.push((from..=commit.upto).filter(|position| is_letter(*position)).count());
            from = commit.upto + 1;
        }
    }
    shares
}

#[tokio::test(flavor = "multi_thread")]
async fn large_signals_come_in_tasks_that_a_worker_can_carry_warm_or_cold() {
    for cache in [10, 0] {
        let world = World::new().await;
        let worker = || {
            let worker = world.worker().workflow(&MAIN, read_letters).workflow_cache(cache);
            Background::run(worker)
        };
        let first = worker();
        let run = world.start().await;
        until(async || (world.info(run.id()).await.length == 2).then_some(())).await;
        first.stop().await;
        for _ in 0..LETTERS {
            run.signal(&LETTER, &"x".repeat(LETTER_BYTES)).await.unwrap();
        }
        let second = worker();
        assert_eq!(patiently(run.wait()).await.unwrap(), LETTERS * LETTER_BYTES as u64);
        assert_eq!(shares(&run).await, [0, 1, 3, 3, 2], "the first came when there was no task");
        second.stop().await;
    }
}

async fn is_gone(world: &World, run: &RunId) {
    let over = PruneRunsParams { max_kept: u64::MAX, min_age: Duration::ZERO };
    until(async || {
        world.store().prune_runs(over).await.unwrap();
        world.store().get_run(run).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn children_and_the_run_that_one_is_reset_to_are_kept_as_long_as_it_was_to_be() {
    const CHILD: Workflow<u64, u64> = Workflow::new("child");
    let world = World::new().await;
    let worker = world.worker().workflow(&CHILD, async |_: Ctx, n: u64| Ok(n + 1));
    let worker = Background::run(worker.workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let child = ctx.child(&CHILD, n).await?;
        Ok(child + ctx.signals(&GO).recv().await?)
    }));
    let run = world.client.workflow(&MAIN, 1).keep(Duration::from_millis(1)).start().await.unwrap();
    let position = until(async || asked_for_child(&run).await).await;
    is_gone(&world, &run.id().child(1)).await;
    let again = run.reset(position).await.unwrap();
    again.signal(&GO, &1).await.unwrap();
    assert_eq!(patiently(again.wait()).await.unwrap(), 3);
    for run in [again.id().child(1), run.id().clone(), again.id().clone()] {
        is_gone(&world, &run).await;
    }
    worker.stop().await;
}

/// The position of the commit that started the child, once the child has ended.
async fn asked_for_child(run: &RunHandle<u64>) -> Option<u64> {
    let journal = run.journal().await.unwrap();
    let done = |what: &EntryContent| matches!(what, EntryContent::Event(RunEvent::ChildDone { .. }));
    journal.entries.iter().find(|entry| done(&entry.content))?;
    let asks = |what: &EntryContent| match what {
        EntryContent::Commit(commit) => {
            commit.commands.iter().any(|asked| matches!(asked, Command::StartChild(_)))
        }
        EntryContent::Event(_) => false,
    };
    Some(journal.base + 1 + journal.entries.iter().position(|entry| asks(&entry.content))? as u64)
}

//! Resetting a run to one of its commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidemill_core::workflow::{Command, Entry, EntryContent, RunStatus};
use tidemill_worker::{State, Worker};
use tidemill_workflow::{Activity, Ctx, RunError, RunHandle, RunWorkflows, StartWorkflows, Workflow};

use crate::world::{Background, GO, MAIN, World, ms, patiently};

const COUNT: Activity<u64, u64> = Activity::new("count");

#[derive(Clone, Default)]
struct Calls(Arc<AtomicU32>);

async fn count(n: u64, State(calls): State<Calls>) -> Result<u64, std::convert::Infallible> {
    calls.0.fetch_add(1, Ordering::SeqCst);
    Ok(n + 1)
}

async fn commits(run: &RunHandle<u64>) -> Vec<u64> {
    let journal = run.journal().await.unwrap();
    let numbered = journal.entries.iter().zip(journal.base + 1..);
    numbered
        .filter(|(entry, _)| matches!(entry.content, EntryContent::Commit(_)))
        .map(|(_, position)| position)
        .collect()
}

/// The position of the commit that started a child.
async fn asked_for_child(run: &RunHandle<u64>) -> u64 {
    let journal = run.journal().await.unwrap();
    let asks = |entry: &Entry| match &entry.content {
        EntryContent::Commit(commit) => commit.commands.iter().any(|c| matches!(c, Command::StartChild(_))),
        EntryContent::Event(_) => false,
    };
    journal.base + 1 + journal.entries.iter().position(asks).unwrap() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_run_does_again_what_was_open_and_gets_the_signals_again() {
    const CHILD: Workflow<u64, u64> = Workflow::new("child");
    let (world, calls) = (World::new().await, Calls::default());
    let worker = Worker::builder(&world.client).state(calls.clone()).activity(&COUNT, count);
    let worker = worker.workflow(&CHILD, async |ctx: Ctx, n: u64| {
        ctx.sleep(ms(5)).await?;
        Ok(n)
    });
    let worker = Background::run(worker.workflow(&MAIN, async |ctx: Ctx, n: u64| {
        let drawn = ctx.random_range(0..1_000);
        let first = ctx.activity(&COUNT, n).await?;
        let (second, third) = tidemill_workflow::join!(ctx.activity(&COUNT, first), ctx.child(&CHILD, drawn));
        let signal = ctx.signals(&GO).recv().await?;
        Ok(second? * 10_000 + third? + signal * 1_000)
    }));
    let run = world.client.workflow(&MAIN, 1).key("k").start().await.unwrap();
    run.signal(&GO, &7).await.unwrap();
    let result = patiently(run.wait()).await.unwrap();
    assert_eq!(calls.0.load(Ordering::SeqCst), 2);
    let position = asked_for_child(&run).await;
    let again = run.reset(position).await.unwrap();
    assert_ne!(again.id(), run.id());
    assert_eq!(patiently(again.wait()).await.unwrap(), result, "it has the seed of the first");
    assert_eq!(calls.0.load(Ordering::SeqCst), 3);
    let found = world.client.workflow(&MAIN, 1).key("k").start().await.unwrap();
    assert_eq!(found.id(), again.id(), "the key is the new run's");
    for (position, why) in [(1, "is no commit"), (999, "is no commit")] {
        let error = run.reset(position).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let last = *commits(&run).await.last().unwrap();
    assert!(run.reset(last).await.unwrap_err().to_string().contains("is the commit that ended it"));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_reset_while_it_is_open_is_terminated() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| {
        ctx.sleep(ms(1)).await?;
        Ok(n + ctx.signals(&GO).recv().await?)
    }));
    let run = world.start().await;
    let first = crate::world::until(async || commits(&run).await.first().copied()).await;
    let again = run.reset(first).await.unwrap();
    assert!(matches!(run.wait().await, Err(RunError::Terminated { .. })));
    assert_eq!(world.info(run.id()).await.status, RunStatus::Terminated);
    again.signal(&GO, &1).await.unwrap();
    assert_eq!(patiently(again.wait()).await.unwrap(), 2);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_signalled_without_pause_is_reset_and_no_signal_is_lost() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, async |ctx: Ctx, _: u64| {
        ctx.sleep(ms(1)).await?;
        let mut sum = 0;
        loop {
            match ctx.signals(&GO).recv().await? {
                0 => return Ok(sum),
                n => sum += n,
            }
        }
    }));
    for _ in 0..5 {
        let run = world.start().await;
        let first = crate::world::until(async || commits(&run).await.first().copied()).await;
        let sender = tokio::spawn({
            let run = run.clone();
            async move {
                let mut taken = 0;
                while run.signal(&GO, &1).await.is_ok() {
                    taken += 1;
                }
                taken
            }
        });
        tokio::time::sleep(ms(20)).await;
        let again = patiently(run.reset(first)).await.unwrap();
        let taken = patiently(sender).await.unwrap();
        again.signal(&GO, &0).await.unwrap();
        assert_eq!(patiently(again.wait()).await.unwrap(), taken);
    }
    worker.stop().await;
}

//! The delay of timers.

use std::time::Duration;

use tidemill::workflow::{Command, Entry, EntryContent, RunEvent};
use tidemill::workflow::{RunWorkflows, StartWorkflows};
use tidemill::{Ctx, RunHandle, Timestamp, Worker, Workflow, WorkflowError, testing};

use crate::world::{Background, patiently, quantile, stores, until};

const SLEEPS: Workflow<u64, ()> = Workflow::new("sleeps");

/// Timers, one at a time.
const TIMERS: u64 = 100;

async fn sleeps(ctx: Ctx, milliseconds: u64) -> Result<(), WorkflowError> {
    Ok(ctx.sleep(Duration::from_millis(milliseconds)).await?)
}

/// A poll at intervals would be late: the clock stops exactly when the timer is due, far from any
/// interval.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_fires_when_it_is_due_and_not_when_somebody_looks_next() {
    let (client, clock) = testing::paused().await.unwrap();
    let worker = Background::run(Worker::builder(&client).workflow(&SLEEPS, sleeps));
    for milliseconds in [7_301, 61, 2_999] {
        let run = client.workflow(&SLEEPS, milliseconds).start().await.unwrap();
        until(async || run.info().await.unwrap().next_timer.is_some()).await;
        clock.advance(Duration::from_millis(milliseconds - 1));
        assert!(fired(&run).await.is_none(), "it fires early");
        clock.advance(Duration::from_millis(1));
        patiently(run.wait()).await.unwrap();
        assert_eq!(fired(&run).await, Some(0), "by the store's clock");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn lateness_of_timers() {
    for (store, client) in stores("timers").await {
        let worker = Background::run(Worker::builder(&client).workflow(&SLEEPS, sleeps));
        let (mut firings, mut steps) = (Vec::new(), Vec::new());
        for number in 0..TIMERS {
            // Out of phase with any interval and with one another.
            let run = client.workflow(&SLEEPS, 60 + number * 7 % 83).start().await.unwrap();
            patiently(run.wait()).await.unwrap();
            firings.extend(fired(&run).await);
            steps.extend(stepped(&run).await);
        }
        println!(
            "timers on {store}: fired after p50 {} ms, p95 {} ms, most {} ms; the code went on after p50 {} ms, most {} ms",
            quantile(&mut firings, 0.5),
            quantile(&mut firings, 0.95),
            quantile(&mut firings, 1.0),
            quantile(&mut steps, 0.5),
            quantile(&mut steps, 1.0),
        );
        worker.stop().await;
    }
}

/// The delay of the timer's event, in milliseconds.
async fn fired(run: &RunHandle<()>) -> Option<i64> {
    late(run, |entry| matches!(&entry.content, EntryContent::Event(RunEvent::TimerFired { .. }))).await
}

/// The delay until the code continued, in milliseconds.
async fn stepped(run: &RunHandle<()>) -> Option<i64> {
    late(run, |entry| matches!(&entry.content, EntryContent::Commit(commit) if commit.end.is_some())).await
}

async fn late(run: &RunHandle<()>, what: impl Fn(&Entry) -> bool) -> Option<i64> {
    let entries = run.journal().await.unwrap().entries;
    let happened = entries.iter().find(|entry| what(entry))?.at;
    let Timestamp(due) = entries.iter().find_map(due)?;
    Some(happened.0 - due)
}

fn due(entry: &Entry) -> Option<Timestamp> {
    let EntryContent::Commit(commit) = &entry.content else { return None };
    commit.commands.iter().find_map(|command| match command {
        Command::StartTimer { due_ms, .. } => Some(Timestamp(*due_ms)),
        _ => None,
    })
}

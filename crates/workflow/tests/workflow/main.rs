//! Workflows in memory: the API of their code, and its replay.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activities;
mod blocked;
mod cancel;
mod children;
mod cost;
mod duplicates;
mod foreign_await;
mod joins;
mod limits;
mod messages;
mod programs;
mod replay;
mod replay_dir;
mod sagas;
mod values;

use std::time::Duration;

use serde::de::DeserializeOwned;
use tidemill_core::workflow::{Command, EntryContent, Journal};
use tidemill_workflow::testing::{NoResult, TestOutcome, TestWorld, replay_every_prefix};
use tidemill_workflow::{Activity, Signal, Workflow};

const DOUBLE: Activity<u64, u64> = Activity::new("double");
const FAIL: Activity<u64, u64> = Activity::new("fail");
const GO: Signal<u64> = Signal::new("go");
const MAIN: Workflow<u64, u64> = Workflow::new("main");

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A world whose activities take a second.
fn world() -> TestWorld {
    TestWorld::new().slow_activity(&DOUBLE, secs(1), |n| Ok::<_, String>(n * 2)).slow_activity(
        &FAIL,
        secs(1),
        |n: u64| Err::<u64, _>(format!("no {n}")),
    )
}

/// Runs `MAIN` with 1 and replays its journals from every prefix.
fn run(world: TestWorld) -> TestOutcome<u64> {
    let programs = world.programs().clone();
    let ended = world.run(&MAIN, 1).unwrap();
    for journal in &ended.journals {
        replay_every_prefix(&programs, journal).unwrap();
    }
    ended
}

fn result<O: DeserializeOwned>(ended: &TestOutcome<O>) -> Result<O, NoResult> {
    ended.result()
}

/// The commands of a journal, as text.
fn commands(journal: &Journal) -> Vec<String> {
    let commits = journal.entries.iter().filter_map(|entry| match &entry.content {
        EntryContent::Commit(commit) => Some(commit),
        EntryContent::Event(_) => None,
    });
    commits.flat_map(|commit| &commit.commands).map(Command::to_string).collect()
}

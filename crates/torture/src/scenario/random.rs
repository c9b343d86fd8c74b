//! Enqueues, kills, stops, cancels, pauses and outages at random, for a given time. Then the queues
//! are drained, and every job is accounted for.

mod chaos;
mod check;

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::environment::Environment;
use chaos::Chaos;
pub use check::RandomReport;

/// Injects random events for `time` from `seed`, and checks the result.
pub async fn run(environment: &Environment, seed: u64, time: Duration) -> Result<RandomReport> {
    let started = Instant::now();
    let mut chaos = Chaos::new(environment, seed)?;
    while started.elapsed() < time {
        chaos.inject_one().await?;
    }
    let acknowledged = chaos.drain().await?;
    check::check(environment, &acknowledged).await
}

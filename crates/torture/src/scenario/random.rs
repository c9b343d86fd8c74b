//! Producers, workers, kills, stops, cancels, pauses and outages at random, for as long as one likes; then
//! everything is drained, and every job is accounted for.

mod chaos;
mod reckoning;

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::stage::Stage;
use chaos::Chaos;
pub use reckoning::Reckoning;

/// Torments the store for `time`, doing what `seed` says, and checks what is left.
pub async fn run(stage: &Stage, seed: u64, time: Duration) -> Result<Reckoning> {
    let begun = Instant::now();
    let mut chaos = Chaos::new(stage, seed)?;
    while begun.elapsed() < time {
        chaos.strike().await?;
    }
    let made = chaos.calm_down().await?;
    reckoning::check(stage, &made).await
}

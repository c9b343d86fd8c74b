//! One live line with the counts of a worker.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use tidemill::Stats;
use tidemill::worker::JobCounts;

use super::rate::{Rate, per_second};
use crate::output::{Screen, thousands};

/// Update interval on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(100);

/// Print interval without a terminal, long enough not to flood a log.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the worker's counts until it is dropped.
pub(crate) async fn show_counts(stats: Stats, screen: &Screen) -> Infallible {
    let (started, mut rate) = (Instant::now(), Rate::default());
    let live = screen.is_live().then(|| screen.line());
    let mut ticks = tokio::time::interval(if live.is_some() { TERMINAL_INTERVAL } else { LOG_INTERVAL });
    let mut last_printed = None;
    loop {
        ticks.tick().await;
        let (now, counts) = (Instant::now(), stats.total());
        let line = describe(counts, rate.at(now, counts.done));
        match &live {
            Some(bar) => bar.set_message(format!("{:>5}s  {line}", (now - started).as_secs())),
            // Nothing has changed since the last line.
            None if last_printed == Some(counts) => {}
            None => screen.print_line(&line),
        }
        last_printed = Some(counts);
    }
}

fn describe(counts: JobCounts, rate: f64) -> String {
    let mut line = format!("done {} ({})", thousands(counts.done), per_second(rate));
    let others = [
        ("failed", counts.retried),
        ("dead", counts.dead),
        ("cancelled", counts.cancelled),
        ("running", counts.running),
    ];
    for (word, count) in others {
        line.push_str(&format!("  {word} {}", thousands(count)));
    }
    line
}

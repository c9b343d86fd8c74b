//! One line about everything a worker does.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use tidemill::{JobCounts, Stats};

use super::rate::{Rate, per_second};
use crate::output::{Screen, thousands};

/// How often the line changes on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);

/// How often a line is written elsewhere: a log should not drown in it.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Shows the worker's counts for as long as it is polled.
pub(crate) async fn watch(stats: Stats, screen: &Screen) -> Infallible {
    let (begun, mut rate) = (Instant::now(), Rate::default());
    let live = screen.is_live().then(|| screen.line());
    let mut ticks = tokio::time::interval(if live.is_some() { ON_TERMINAL } else { ELSEWHERE });
    let mut said = None;
    loop {
        ticks.tick().await;
        let (now, counts) = (Instant::now(), stats.total());
        let line = describe(counts, rate.at(now, counts.done));
        match &live {
            Some(bar) => bar.set_message(format!("{:>5}s  {line}", (now - begun).as_secs())),
            // Nothing happened, nothing to say.
            None if said == Some(counts) => {}
            None => screen.say(&line),
        }
        said = Some(counts);
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

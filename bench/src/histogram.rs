//! Histograms of times, and their comparison.

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

/// Longer times are recorded as this.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Times in microseconds.
pub(crate) struct LatencyHistogram(Histogram<u64>);

impl LatencyHistogram {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_max(MAX_TIME.as_micros().try_into()?, 3)?))
    }

    /// Records the time since `started`.
    pub(crate) fn add_since(&mut self, started: Instant) {
        self.add(started.elapsed());
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// The quantile in milliseconds.
    pub(crate) fn at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    pub(crate) fn p50(&self) -> f64 {
        self.at(0.5)
    }
}

/// Prints a comparison of two histograms in one line.
pub(crate) fn compare(what: &str, direct: &LatencyHistogram, through: &LatencyHistogram) {
    let (one, other) = (direct.p50(), through.p50());
    println!(
        "{what:<14} direct p50 {one:7.3} ms   gateway p50 {other:7.3} ms   {:+.3} ms, x {:.3}   (p99 {:.3} and {:.3})",
        other - one,
        other / one,
        direct.at(0.99),
        through.at(0.99),
    );
}

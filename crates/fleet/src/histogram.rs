//! A histogram of durations, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets in seconds: from a fast store call to a very slow one.
const BUCKET_BOUNDS_SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One count per bound, and one for everything above.
    buckets: [AtomicU64; BUCKET_BOUNDS_SECONDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, duration: Duration) {
        let bucket = BUCKET_BOUNDS_SECONDS
            .iter()
            .position(|bound| duration.as_secs_f64() <= *bound)
            .unwrap_or(BUCKET_BOUNDS_SECONDS.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_micros.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Each upper bound with the number of durations up to it.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (String, u64)> {
        let bounds = BUCKET_BOUNDS_SECONDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let counts = self.buckets.iter().scan(0, |sum, bucket| {
            *sum += bucket.load(Relaxed);
            Some(*sum)
        });
        bounds.zip(counts)
    }

    pub(crate) fn sum_seconds(&self) -> f64 {
        self.sum_micros.load(Relaxed) as f64 / 1e6
    }
}

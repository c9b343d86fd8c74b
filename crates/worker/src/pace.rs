//! A running average of how long something takes, cheap enough to be kept per job.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many samples make an average one may rely on.
const PROVEN: u64 = 8;

/// An exponentially weighted mean. Concurrent samples may overwrite one another: it is an estimate, and not
/// worth a lock.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    nanos: AtomicU64,
    samples: AtomicU64,
}

impl Pace {
    pub(crate) fn sample(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let samples = self.samples.load(Ordering::Relaxed);
        let mean = self.nanos.load(Ordering::Relaxed);
        let next = if samples == 0 { took } else { mean - mean / 8 + took / 8 };
        self.nanos.store(next, Ordering::Relaxed);
        if samples < PROVEN {
            self.samples.store(samples + 1, Ordering::Relaxed);
        }
    }

    /// The mean, once it has been proven.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let proven = self.samples.load(Ordering::Relaxed) >= PROVEN;
        proven.then(|| Duration::from_nanos(self.nanos.load(Ordering::Relaxed)))
    }

    pub(crate) fn is_under(&self, limit: Duration) -> bool {
        self.mean().is_some_and(|mean| mean < limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_proven_by_a_few_samples_and_one_slow_one_undoes_it() {
        let (pace, limit) = (Pace::default(), Duration::from_micros(20));
        assert!(!pace.is_under(limit));
        (0..PROVEN).for_each(|_| pace.sample(Duration::from_micros(1)));
        assert!(pace.is_under(limit));
        pace.sample(Duration::from_secs(1));
        assert!(!pace.is_under(limit));
    }
}

//! The slots of one queue of a worker, and a moving average of durations.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_core::Queue;
use tokio::sync::Notify;

use crate::claim_tracker::ClaimTracker;
use crate::stats::Counters;

/// The maximum number of jobs per claim. Larger claims gain nothing and block the store for longer.
pub(crate) const MAX_CLAIM_JOBS: usize = 512;

/// Jobs shorter than this have freed all their slots before a claim returns.
const VERY_SHORT_JOB: Duration = Duration::from_micros(200);

/// Jobs shorter than this free many slots within one or two claims.
const SHORT_JOB: Duration = Duration::from_millis(5);

/// A queue and its slots.
#[derive(Debug)]
pub(crate) struct QueueSlots {
    pub(crate) queue: Queue,
    pub(crate) concurrency: usize,
    pub(crate) counters: Counters,
    pub(crate) claim_tracker: ClaimTracker,
    /// How long its handlers run.
    pub(crate) run_time: MovingAverage,
    /// Notified whenever a slot becomes free.
    pub(crate) slot_freed: Notify,
    /// How many jobs to claim beyond the free slots.
    pub(crate) prefetch: usize,
    /// The maximum number of jobs per claim.
    pub(crate) max_claim: usize,
    running: AtomicUsize,
}

impl QueueSlots {
    pub(crate) fn new(queue: Queue, concurrency: usize, prefetch: usize, max_claim: usize) -> Self {
        Self {
            queue,
            concurrency,
            prefetch,
            max_claim,
            counters: Counters::default(),
            claim_tracker: ClaimTracker::default(),
            run_time: MovingAverage::default(),
            slot_freed: Notify::new(),
            running: AtomicUsize::new(0),
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// The number of free slots. Only the queue's producer occupies slots, so a slot that it sees
    /// free stays free.
    pub(crate) fn free(&self) -> usize {
        self.concurrency.saturating_sub(self.running())
    }

    pub(crate) fn occupy(&self, slots: usize) {
        self.running.fetch_add(slots, Ordering::AcqRel);
    }

    pub(crate) fn release(&self, slots: usize) {
        self.running.fetch_sub(slots, Ordering::AcqRel);
        self.slot_freed.notify_one();
    }

    /// How many slots should be free before a claim. Short jobs free more slots soon; for long jobs
    /// every free slot counts.
    pub(crate) fn min_free_slots_to_claim(&self) -> usize {
        let max_claim = self.concurrency.min(self.max_claim);
        match self.run_time.mean() {
            Some(mean) if mean < VERY_SHORT_JOB => (max_claim * 3).div_ceil(4),
            Some(mean) if mean < SHORT_JOB => max_claim.div_ceil(8),
            _ => 1,
        }
    }
}

/// The number of samples from which on the average is used.
const MIN_SAMPLES: u64 = 8;

/// An exponentially weighted moving average. Concurrent samples may overwrite one another: an
/// estimate does not justify a lock.
#[derive(Debug, Default)]
pub(crate) struct MovingAverage {
    nanos: AtomicU64,
    samples: AtomicU64,
}

impl MovingAverage {
    pub(crate) fn record(&self, elapsed: Duration) {
        let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let samples = self.samples.load(Ordering::Relaxed);
        let mean = self.nanos.load(Ordering::Relaxed);
        let next = if samples == 0 { elapsed } else { mean - mean / 8 + elapsed / 8 };
        self.nanos.store(next, Ordering::Relaxed);
        if samples < MIN_SAMPLES {
            self.samples.store(samples + 1, Ordering::Relaxed);
        }
    }

    /// The average, once there are enough samples.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let is_reliable = self.samples.load(Ordering::Relaxed) >= MIN_SAMPLES;
        is_reliable.then(|| Duration::from_nanos(self.nanos.load(Ordering::Relaxed)))
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
        let (average, limit) = (MovingAverage::default(), Duration::from_micros(20));
        assert!(!average.is_under(limit));
        (0..MIN_SAMPLES).for_each(|_| average.record(Duration::from_micros(1)));
        assert!(average.is_under(limit));
        average.record(Duration::from_secs(1));
        assert!(!average.is_under(limit));
    }
}

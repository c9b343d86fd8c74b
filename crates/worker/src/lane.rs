//! One queue of a worker: its slots, its counters, and how far ahead it claims.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_core::Queue;
use tokio::sync::Notify;

use crate::claims::Claims;
use crate::pace::Pace;
use crate::stats::Counters;

/// Claiming more than this at once gains nothing and makes the store hold its breath.
pub(crate) const MAX_CLAIM: usize = 512;

/// Jobs shorter than this have freed all their slots before a claim has come back.
const QUICK: Duration = Duration::from_micros(200);

/// Jobs shorter than this free many slots in the time of a claim or two.
const SHORT: Duration = Duration::from_millis(5);

/// A queue and its slots.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) queue: Queue,
    pub(crate) concurrency: usize,
    pub(crate) counters: Counters,
    pub(crate) claims: Claims,
    /// How long its handlers run.
    pub(crate) pace: Pace,
    /// Told whenever a slot becomes free.
    pub(crate) freed: Notify,
    /// How many jobs to claim beyond the free slots.
    pub(crate) prefetch: usize,
    /// How many jobs one claim takes at most.
    pub(crate) most: usize,
    running: AtomicUsize,
}

impl Lane {
    pub(crate) fn new(queue: Queue, concurrency: usize, prefetch: usize, most: usize) -> Self {
        Self {
            queue,
            concurrency,
            prefetch,
            most,
            counters: Counters::default(),
            claims: Claims::default(),
            pace: Pace::default(),
            freed: Notify::new(),
            running: AtomicUsize::new(0),
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// How many more may run. Only the lane's producer occupies slots, so what it sees free stays free.
    pub(crate) fn free(&self) -> usize {
        self.concurrency.saturating_sub(self.running())
    }

    pub(crate) fn occupy(&self, slots: usize) {
        self.running.fetch_add(slots, Ordering::AcqRel);
    }

    pub(crate) fn release(&self, slots: usize) {
        self.running.fetch_sub(slots, Ordering::AcqRel);
        self.freed.notify_one();
    }

    /// How many slots should be free for a claim to be worth its trip. The shorter the jobs, the sooner there
    /// are more; for long ones every free slot counts.
    pub(crate) fn worth_a_trip(&self) -> usize {
        let most = self.concurrency.min(self.most);
        match self.pace.mean() {
            Some(mean) if mean < QUICK => (most * 3).div_ceil(4),
            Some(mean) if mean < SHORT => most.div_ceil(8),
            _ => 1,
        }
    }
}

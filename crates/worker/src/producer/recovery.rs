//! When to ask the store for jobs that a failed claim may have taken.
//!
//! A claim that ends in an error may still have had its effect, or may have it later: a server that is slow, or that has not
//! noticed the end of a connection, executes it after the worker has given up. So the worker asks at once, and again a few times.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long after each look the next one follows. The sum exceeds the default lease, and the time that a claim may take
/// on up to 19 queues of one worker. A job that a still later claim has taken waits for the end of its lease.
const RECOVER_INTERVALS: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];

/// Whether claims have failed, and when the next look is due.
#[derive(Debug, Default)]
pub(crate) struct RecoverySchedule {
    next: Option<Instant>,
    lookups: usize,
}

impl RecoverySchedule {
    /// A claim has failed: the next look is due now.
    pub(crate) fn start(&mut self) {
        *self = Self { next: Some(Instant::now()), lookups: 0 };
    }

    /// A part of a claim has failed, and the rest of the store answers: the looks go on as they are planned.
    pub(crate) fn start_if_idle(&mut self) {
        if self.next.is_none() {
            self.start();
        }
    }

    /// A look was answered.
    pub(crate) fn record_lookup(&mut self) {
        self.next = RECOVER_INTERVALS.get(self.lookups).map(|pause| Instant::now() + *pause);
        self.lookups += 1;
    }

    pub(crate) fn is_active(&self) -> bool {
        self.next.is_some()
    }

    pub(crate) fn is_due(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }

    /// How long until the next look; none if there is none.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Completes when a look is due that was not due before.
    pub(crate) async fn wait_until_due(&self) {
        match self.next.filter(|next| *next > Instant::now()) {
            Some(next) => sleep_until(next).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_look_is_due_at_once_and_the_last_a_minute_later() {
        let mut schedule = RecoverySchedule::default();
        assert!(!schedule.is_active() && !schedule.is_due());
        schedule.start();
        let begun = Instant::now();
        for _ in 0..RECOVER_INTERVALS.len() {
            assert!(schedule.is_due());
            schedule.record_lookup();
            assert!(schedule.is_active() && !schedule.is_due());
            schedule.wait_until_due().await;
        }
        schedule.record_lookup();
        assert!(!schedule.is_active() && begun.elapsed() > Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_keeps_failing_does_not_hurry_the_looks() {
        let mut schedule = RecoverySchedule::default();
        schedule.start_if_idle();
        schedule.record_lookup();
        schedule.start_if_idle();
        assert!(!schedule.is_due());
    }
}

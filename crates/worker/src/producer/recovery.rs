//! The schedule for recovering jobs that a failed claim may have taken.
//!
//! A claim that ends in an error may have taken effect, or may do so later: a slow server, or one
//! that has not noticed a closed connection, executes it afterwards. So the worker queries the
//! store at once, and again several times.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The intervals between recoveries. Their sum exceeds the default lease, and the duration of a
/// claim in a worker with up to 19 queues. Jobs of a claim that executes even later wait until
/// their leases expire.
const RECOVER_INTERVALS: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];

/// When the next recovery is due, if claims have failed.
#[derive(Debug, Default)]
pub(crate) struct RecoverySchedule {
    next: Option<Instant>,
    lookups: usize,
}

impl RecoverySchedule {
    /// Makes a recovery due now, because a claim has failed.
    pub(crate) fn start(&mut self) {
        *self = Self { next: Some(Instant::now()), lookups: 0 };
    }

    /// Starts the schedule unless it is running: only some shards failed, and the others answer.
    pub(crate) fn start_if_idle(&mut self) {
        if self.next.is_none() {
            self.start();
        }
    }

    /// Records that a recovery was answered.
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

    /// The time until the next recovery, if there is one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Completes when the next recovery becomes due. Never completes if it already is.
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

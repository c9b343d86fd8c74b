//! The heartbeat schedule: every few seconds, at once when there is something to report, with
//! backoff while the store is unavailable.

use std::time::Duration;

use tidemill_core::{Backoff, Error};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::timing::{HEARTBEAT_INTERVAL, MAX_HEARTBEAT_DELAY};

/// The least interval between heartbeats that no specific wake-up asked for.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

/// While the store is unavailable: short enough to recover within two seconds, long enough to avoid
/// a hot loop.
const RETRY_BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_secs(1),
    jitter: Duration::from_millis(100),
};

/// The schedule of an agent's heartbeats.
#[derive(Debug)]
pub(super) struct HeartbeatSchedule {
    next: Instant,
    last_start: Instant,
    /// When the store last answered.
    last_answer: Instant,
    /// While it is not zero, nothing brings the next heartbeat forward.
    failures: u32,
}

impl HeartbeatSchedule {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { next: now + HEARTBEAT_INTERVAL, last_start: now, last_answer: now, failures: 0 }
    }

    /// Schedules a heartbeat now: there is something to report.
    pub(super) fn schedule_now(&mut self) {
        self.schedule_at(Instant::now());
    }

    /// Schedules a heartbeat soon: there may be an order to receive.
    pub(super) fn schedule_soon(&mut self) {
        self.schedule_at(self.last_start + MIN_INTERVAL);
    }

    fn schedule_at(&mut self, at: Instant) {
        if self.failures == 0 {
            self.next = self.next.min(at);
        }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn is_due(&self) -> bool {
        self.next <= Instant::now()
    }

    /// Begins a heartbeat. Anything that schedules another from now on is not lost.
    pub(super) fn begin(&mut self) {
        self.last_start = Instant::now();
        self.next = self.last_start + HEARTBEAT_INTERVAL;
    }

    /// Ends a heartbeat. Returns whether the store may have been unavailable since its last answer,
    /// so that leases expired that nobody could renew.
    pub(super) fn finish(&mut self, error: Option<&Error>) -> bool {
        if let Some(error) = error {
            self.record_failure(error);
            return false;
        }
        let was_away =
            self.failures > 0 || self.last_answer.elapsed() > HEARTBEAT_INTERVAL + MAX_HEARTBEAT_DELAY;
        if self.failures > 0 {
            info!("the store answers again after {} failures", self.failures);
        }
        (self.failures, self.last_answer) = (0, Instant::now());
        was_away
    }

    fn record_failure(&mut self, error: &Error) {
        if self.failures == 0 {
            warn!("the fleet cannot be reached, trying again until it can: {}", error.full_message());
        }
        self.next = Instant::now() + RETRY_BACKOFF.delay(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beats_at_once_when_called_and_never_hot_when_the_store_is_away() {
        let mut schedule = HeartbeatSchedule::new();
        assert!(!schedule.is_due());
        schedule.schedule_now();
        assert!(schedule.is_due());
        schedule.begin();
        schedule.finish(Some(&Error::Full("disk".into())));
        schedule.schedule_now();
        assert!(!schedule.is_due());
        tokio::time::advance(Duration::from_millis(300)).await;
        assert!(schedule.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_was_away_if_it_failed_or_was_not_heard_for_long() {
        let mut schedule = HeartbeatSchedule::new();
        tokio::time::advance(HEARTBEAT_INTERVAL + MAX_HEARTBEAT_DELAY / 2).await;
        assert!(!schedule.finish(None));
        assert!(!schedule.finish(Some(&Error::Full("disk".into()))));
        assert!(schedule.finish(None) && !schedule.finish(None));
        tokio::time::advance(HEARTBEAT_INTERVAL + 2 * MAX_HEARTBEAT_DELAY).await;
        assert!(schedule.finish(None) && !schedule.finish(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_during_a_beat_makes_another() {
        let mut schedule = HeartbeatSchedule::new();
        schedule.begin();
        schedule.schedule_now();
        schedule.finish(None);
        assert!(schedule.is_due());
    }
}

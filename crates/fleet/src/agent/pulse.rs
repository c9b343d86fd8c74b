//! When to speak to the store: every few seconds, at once when there is something to say, later when it is away.

use std::time::Duration;

use tidemill_core::{Backoff, Error};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::terms::{BEAT, LATE};

/// The least time between two beats that nobody called for by name.
const A_LITTLE: Duration = Duration::from_millis(250);

/// While the store is away. Short enough to be back within two seconds of it, long enough to be no hot loop.
const PAUSE: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_secs(1),
    jitter: Duration::from_millis(100),
};

/// The rhythm of an agent's beats.
#[derive(Debug)]
pub(super) struct Pulse {
    next: Instant,
    last: Instant,
    /// When the store last answered.
    heard: Instant,
    /// While it fails nobody can hurry it.
    failures: u32,
}

impl Pulse {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { next: now + BEAT, last: now, heard: now, failures: 0 }
    }

    /// There is something to say.
    pub(super) fn hurry(&mut self) {
        self.by(Instant::now());
    }

    /// There may be something to hear.
    pub(super) fn hurry_a_little(&mut self) {
        self.by(self.last + A_LITTLE);
    }

    fn by(&mut self, at: Instant) {
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

    /// A beat begins. Whatever calls for another one from now on is not lost.
    pub(super) fn begin(&mut self) {
        self.last = Instant::now();
        self.next = self.last + BEAT;
    }

    /// It has come back. Whether the store may have been away since it was last heard: leases may have run out that nobody
    /// could extend.
    pub(super) fn end(&mut self, error: Option<&Error>) -> bool {
        if let Some(error) = error {
            self.failed(error);
            return false;
        }
        let was_away = self.failures > 0 || self.heard.elapsed() > BEAT + LATE;
        if self.failures > 0 {
            info!("the store answers again after {} failures", self.failures);
        }
        (self.failures, self.heard) = (0, Instant::now());
        was_away
    }

    fn failed(&mut self, error: &Error) {
        if self.failures == 0 {
            warn!("the fleet cannot be reached, trying again until it can: {}", error.full_message());
        }
        self.next = Instant::now() + PAUSE.delay(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beats_at_once_when_called_and_never_hot_when_the_store_is_away() {
        let mut pulse = Pulse::new();
        assert!(!pulse.is_due());
        pulse.hurry();
        assert!(pulse.is_due());
        pulse.begin();
        pulse.end(Some(&Error::Full("disk".into())));
        pulse.hurry();
        assert!(!pulse.is_due());
        tokio::time::advance(Duration::from_millis(300)).await;
        assert!(pulse.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_was_away_if_it_failed_or_was_not_heard_for_long() {
        let mut pulse = Pulse::new();
        tokio::time::advance(BEAT + LATE / 2).await;
        assert!(!pulse.end(None));
        assert!(!pulse.end(Some(&Error::Full("disk".into()))));
        assert!(pulse.end(None) && !pulse.end(None));
        tokio::time::advance(BEAT + 2 * LATE).await;
        assert!(pulse.end(None) && !pulse.end(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_during_a_beat_makes_another() {
        let mut pulse = Pulse::new();
        pulse.begin();
        pulse.hurry();
        pulse.end(None);
        assert!(pulse.is_due());
    }
}

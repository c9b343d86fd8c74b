//! The time between a store's first refusal and its next answer, as one part of the worker sees it.

use std::time::Duration;

use tidemill_core::{Backoff, Error};
use tracing::{info, warn};

/// Short enough to be back within two seconds of the store, long enough to be no hot loop.
const PAUSE: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_secs(1),
    jitter: Duration::from_millis(100),
};

/// Counts failures in a row; says so in the log once when they begin and once when they are over.
#[derive(Debug)]
pub(crate) struct Outage {
    what: String,
    failures: u32,
}

impl Outage {
    /// `what` is being tried, such as "claiming from queue `mail`".
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), failures: 0 }
    }

    /// Notes a failure; returns how long to pause before the next try.
    pub(crate) fn failed(&mut self, error: &Error) -> Duration {
        if self.failures == 0 {
            warn!("{} fails, trying again until it works: {}", self.what, error.chain());
        }
        let pause = PAUSE.delay(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Notes a success.
    pub(crate) fn is_over(&mut self) {
        if self.failures > 0 {
            info!("{} works again after {} failures", self.what, self.failures);
            self.failures = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_outage_makes_more_than_ten_errors_a_second_or_pauses_longer_than_two() {
        let mut outage = Outage::of("claiming");
        let error = Error::Full("disk".into());
        let pauses: Vec<_> = (0..100).map(|_| outage.failed(&error)).collect();
        assert!(pauses.iter().all(|pause| (100..2000).contains(&pause.as_millis())), "{pauses:?}");
    }
}

//! The time between a store's first refusal and its next answer, as one part of the worker sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidemill_core::{Backoff, Error};
use tracing::{debug, warn};

/// Short enough to be back within two seconds of the store, long enough to be no hot loop.
const PAUSE: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_secs(1),
    jitter: Duration::from_millis(100),
};

/// Counts the failures in a row of one part; logs when they begin and when they are over. A store that is not available
/// fails for every part at once: the first part that notices and the last one that recovers log it, the others only at
/// the level `debug`.
#[derive(Debug)]
pub(crate) struct Outage {
    what: String,
    failures: u32,
    began: Option<Instant>,
    /// How many parts of the worker find the store unavailable.
    unavailable: Arc<AtomicUsize>,
    /// Whether this part is among them.
    counted: bool,
}

impl Outage {
    /// `what` is being tried, such as "claiming from queue `mail`".
    #[cfg(test)]
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self::sharing(what, Arc::default())
    }

    /// The same for one part of several, which share the count of parts that find the store unavailable.
    pub(crate) fn sharing(what: impl Into<String>, unavailable: Arc<AtomicUsize>) -> Self {
        Self { what: what.into(), failures: 0, began: None, unavailable, counted: false }
    }

    /// Notes a failure; returns how long to pause before the next try.
    pub(crate) fn failed(&mut self, error: &Error) -> Duration {
        if self.failures == 0 {
            self.began = Some(Instant::now());
            self.begins(error);
        }
        let pause = PAUSE.delay(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Notes a success.
    pub(crate) fn is_over(&mut self) {
        if self.failures > 0 {
            let took = self.began.take().map_or(Duration::ZERO, |began| began.elapsed());
            let is_last = !self.counted || self.leave();
            let (what, failures) = (&self.what, self.failures);
            if is_last {
                warn!("the outage is over: {what} works again after {took:.1?} and {failures} failures");
            } else {
                debug!("{what} works again after {took:.1?} and {failures} failures");
            }
            self.failures = 0;
        }
    }

    fn begins(&mut self, error: &Error) {
        self.counted = error.is_unavailable();
        let is_first = !self.counted || self.unavailable.fetch_add(1, Ordering::Relaxed) == 0;
        let (what, error) = (&self.what, error.chain());
        if is_first {
            warn!("an outage begins: {what} fails and is tried again until it works: {error}");
        } else {
            debug!("{what} fails as well: {error}");
        }
    }

    /// Whether this was the last part that found the store unavailable.
    fn leave(&mut self) -> bool {
        self.counted = false;
        self.unavailable.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if self.counted {
            self.leave();
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

//! The backoff of one part of a worker while its store calls fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidemill_core::{Backoff, Error};
use tracing::{debug, warn};

/// Reconnects within two seconds of the store's return without a hot loop.
const RETRY_BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_secs(1),
    jitter: Duration::from_millis(100),
};

/// Counts the consecutive failures of one part and logs their start and end. An unavailable store
/// fails for all parts at once. Then only the first part to fail and the last one to recover log a
/// warning; the others log at level `debug`.
#[derive(Debug)]
pub(crate) struct FailureBackoff {
    what: String,
    failures: u32,
    failing_since: Option<Instant>,
    /// The number of the worker's parts that find the store unavailable.
    unavailable: Arc<AtomicUsize>,
    /// Whether this part is counted.
    is_counted: bool,
}

impl FailureBackoff {
    /// `what` describes the operation, such as "claiming from queue `mail`".
    #[cfg(test)]
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::new_shared(what, Arc::default())
    }

    /// Like `new`, for one of several parts that share the count of parts without a store.
    pub(crate) fn new_shared(what: impl Into<String>, unavailable: Arc<AtomicUsize>) -> Self {
        Self { what: what.into(), failures: 0, failing_since: None, unavailable, is_counted: false }
    }

    /// Records a failure; returns the pause before the next try.
    pub(crate) fn record_failure(&mut self, error: &Error) -> Duration {
        if self.failures == 0 {
            self.failing_since = Some(Instant::now());
            self.log_start(error);
        }
        let pause = RETRY_BACKOFF.delay(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Records a success.
    pub(crate) fn record_success(&mut self) {
        if self.failures > 0 {
            let elapsed =
                self.failing_since.take().map_or(Duration::ZERO, |failing_since| failing_since.elapsed());
            let is_last = !self.is_counted || self.uncount();
            let (what, failures) = (&self.what, self.failures);
            if is_last {
                warn!("the outage is over: {what} works again after {elapsed:.1?} and {failures} failures");
            } else {
                debug!("{what} works again after {elapsed:.1?} and {failures} failures");
            }
            self.failures = 0;
        }
    }

    fn log_start(&mut self, error: &Error) {
        self.is_counted = error.is_unavailable();
        let is_first = !self.is_counted || self.unavailable.fetch_add(1, Ordering::Relaxed) == 0;
        let (what, error) = (&self.what, error.full_message());
        if is_first {
            warn!("an outage begins: {what} fails and is tried again until it works: {error}");
        } else {
            debug!("{what} fails as well: {error}");
        }
    }

    /// Returns whether this was the last part that found the store unavailable.
    fn uncount(&mut self) -> bool {
        self.is_counted = false;
        self.unavailable.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

impl Drop for FailureBackoff {
    fn drop(&mut self) {
        if self.is_counted {
            self.uncount();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_outage_makes_more_than_ten_errors_a_second_or_pauses_longer_than_two() {
        let mut backoff = FailureBackoff::new("claiming");
        let error = Error::Full("disk".into());
        let pauses: Vec<_> = (0..100).map(|_| backoff.record_failure(&error)).collect();
        assert!(pauses.iter().all(|pause| (100..2000).contains(&pause.as_millis())), "{pauses:?}");
    }
}

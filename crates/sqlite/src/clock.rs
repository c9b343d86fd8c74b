//! Clocks: the machine's, which all processes on one file share, and a paused one for tests.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidemill_core::clock::millis;
use tidemill_core::{Clock, Timestamp};
use tokio::sync::watch;

/// The machine's clock.
#[derive(Debug)]
pub(crate) struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that stands still until [`advance`](Self::advance) is called, for tests.
#[derive(Debug, Clone)]
pub struct PausedClock {
    now: Arc<watch::Sender<Timestamp>>,
    /// Sum of all calls of `advance`, in milliseconds.
    advanced: Arc<AtomicU64>,
}

impl PausedClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { now: Arc::new(watch::Sender::new(now)), advanced: Arc::default() }
    }

    /// Moves the clock forward and wakes sleepers whose time has come.
    pub fn advance(&self, by: Duration) {
        self.advanced.fetch_add(millis(by).unsigned_abs(), Ordering::Relaxed);
        self.now.send_modify(|now| *now = now.after(by));
    }

    /// Steps the clock by so many milliseconds, backwards if negative, as an operator does. No
    /// monotonic time passes.
    pub fn step(&self, by: i64) {
        self.now.send_modify(|now| now.0 = now.0.saturating_add(by));
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.advanced.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let end = self.now().after(duration);
        let mut clock = self.now.subscribe();
        Box::pin(async move {
            // A dropped clock never advances again.
            if clock.wait_for(|now| *now >= end).await.is_err() {
                pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_sleeper_wakes_when_the_clock_has_advanced_far_enough() {
        let clock = PausedClock::new(Timestamp(1_000));
        let mut sleep = clock.sleep(Duration::from_millis(10));
        clock.advance(Duration::from_millis(9));
        assert!((&mut sleep).now_or_never().is_none());
        clock.advance(Duration::from_millis(1));
        assert!((&mut sleep).now_or_never().is_some());
        assert_eq!(clock.now(), Timestamp(1_010));
    }
}

//! Timestamps and the clock of a store.
//!
//! Leases and due times are compared with the store's clock only. So a worker whose clock is wrong
//! cannot run a job early or take one from another worker.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::limits::MAX_DURATION;

/// A point in time, in milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The latest timestamp that has a text form, near the end of the year 9999. All stores can
    /// compute with it.
    pub const MAX: Self = Self(253_402_207_200_000);

    /// The time of this process's clock. Stores derive their own time from it; no lease depends on
    /// it directly.
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_millisecond())
    }

    /// This time plus `duration`, of which at most [`MAX_DURATION`] counts.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// The duration from this time until `later`; zero if `later` is before.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// A duration in whole milliseconds, rounded up so that nothing is early, and at most
/// [`MAX_DURATION`]. The sum of a timestamp and such a duration overflows in no store.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.min(MAX_DURATION).as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, as in the envelope's `enqueue_ts`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse::<jiff::Timestamp>().map(|moment| Self(moment.as_millisecond()))
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// The clock of a store. `sleep` is part of it, so that a caller of a store with a stopped test
/// clock waits for that clock.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The store's time, as precisely as it is known without a request.
    fn now(&self) -> Timestamp;

    /// Completes when this clock has advanced by `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Completes when this clock shows `time`, and after `longest` at the latest: a clock that is set
    /// back must not delay the caller.
    fn sleep_until(&self, time: Timestamp, longest: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        loop {
            let now = self.now();
            let sleep = self.sleep(now.until(time).min(longest));
            // If the clock was advanced between the two calls, the sleep would be too long.
            if self.now() == now {
                return sleep;
            }
        }
    }

    /// The time since an arbitrary moment, by a clock that cannot be set.
    fn monotonic(&self) -> Duration {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        BEGUN.get_or_init(Instant::now).elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_read_back_as_they_are_written() {
        let moment = Timestamp(1_735_689_600_123);
        assert_eq!(moment.to_string(), "2025-01-01T00:00:00.123Z");
        assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment);
    }

    #[test]
    fn a_duration_is_never_longer_than_stores_can_compute_with() {
        let longest = i64::try_from(MAX_DURATION.as_millis()).unwrap();
        assert_eq!(millis(Duration::MAX), longest);
        assert_eq!(Timestamp(7).after(Duration::MAX), Timestamp(7 + longest));
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00Z");
    }

    #[test]
    fn nothing_is_rounded_to_an_earlier_time() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(Timestamp(5).until(Timestamp(3)), Duration::ZERO);
    }
}

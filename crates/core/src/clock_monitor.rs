//! Detection of steps of a store's clock, by comparison with a clock that cannot be set.
//!
//! Leases end by the store's clock. After a step forward, leases of live workers seem to have
//! expired. After a step back, jobs that were ready seem to be due later.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::{Timestamp, millis};
use crate::lease::MAX_HEARTBEAT;

/// How long nothing is rescued after a step forward: by then every live worker has extended its
/// leases.
const DISTRUST_AFTER_STEP: Duration = Duration::from_millis(MAX_HEARTBEAT.as_millis() as u64 * 3 / 2);

/// The last known clocks of a store's shards.
#[derive(Debug)]
pub struct ClockMonitor {
    /// How often leases are extended.
    heartbeat: Duration,
    shards: HashMap<u16, ShardClock>,
}

#[derive(Debug, Clone, Copy)]
struct ShardClock {
    time: Timestamp,
    asked: Duration,
    answered: Duration,
    distrusted_until: Duration,
}

/// When a store was asked for the time and when it answered, by a clock that cannot be set.
#[derive(Debug, Clone, Copy)]
pub struct ClockSample {
    /// When it was asked.
    pub asked: Duration,
    /// When it answered.
    pub answered: Duration,
}

impl ClockMonitor {
    /// Creates a monitor without samples. `heartbeat` is how often leases are extended.
    pub fn new(heartbeat: Duration) -> Self {
        Self { heartbeat, shards: HashMap::new() }
    }

    /// Records the time of a shard's clock. If the clock was set back, returns what it would show
    /// otherwise.
    ///
    /// A clock that is new to the monitor may just have been set, so it is trusted only after one
    /// heartbeat. With a lease of 30 s or more, every live worker extends its leases in that time.
    /// With a shorter one it may not. Waiting longer would delay rescues by a single restarted
    /// worker, which is far more frequent than a clock step.
    pub fn record(&mut self, shard: u16, time: Timestamp, sample: ClockSample) -> Option<Timestamp> {
        let before = self.shards.get(&shard).copied();
        let mut distrusted_until =
            before.map_or(sample.answered + self.heartbeat, |last| last.distrusted_until);
        let mut set_back_from = None;
        if let Some(last) = before {
            let passed = time.0.saturating_sub(last.time.0);
            let min_passed = millis(sample.asked.saturating_sub(last.answered));
            let max_passed = millis(sample.answered.saturating_sub(last.asked));
            let tolerance = millis(self.heartbeat / 2);
            if passed > max_passed.saturating_add(tolerance) {
                distrusted_until = sample.answered + DISTRUST_AFTER_STEP.max(self.heartbeat);
            } else if passed < min_passed.saturating_sub(tolerance) {
                set_back_from = Some(Timestamp(last.time.0.saturating_add(min_passed)));
            }
        }
        let ClockSample { asked: at, answered } = sample;
        self.shards.insert(shard, ShardClock { time, asked: at, answered, distrusted_until });
        set_back_from
    }

    /// Whether leases that have expired by the shard's clock have really expired.
    pub fn is_trusted(&self, shard: u16, now: Duration) -> bool {
        self.shards.get(&shard).is_some_and(|last| last.distrusted_until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(seconds: u64) -> ClockSample {
        let at = Duration::from_secs(seconds);
        ClockSample { asked: at, answered: at + Duration::from_millis(20) }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A monitor that trusts the clock of shard 0, at 11 s.
    fn steady() -> ClockMonitor {
        let mut monitor = ClockMonitor::new(seconds(10));
        assert_eq!(monitor.record(0, Timestamp(0), at(0)), None);
        assert!(!monitor.is_trusted(0, seconds(5)), "it may have been set a moment ago");
        assert_eq!(monitor.record(0, Timestamp(11_000), at(11)), None);
        assert!(monitor.is_trusted(0, seconds(11)));
        monitor
    }

    #[test]
    fn a_clock_that_was_set_forward_is_doubted_for_a_while() {
        let mut monitor = steady();
        assert_eq!(monitor.record(0, Timestamp(12_000 + HOUR), at(12)), None);
        assert!(!monitor.is_trusted(0, seconds(13)));
        assert_eq!(monitor.record(0, Timestamp(13_000 + HOUR), at(13)), None);
        assert!(!monitor.is_trusted(0, seconds(13)) && monitor.is_trusted(0, seconds(28)));
    }

    #[test]
    fn a_clock_that_was_set_back_says_what_it_would_show() {
        let mut monitor = steady();
        let from = monitor.record(0, Timestamp(12_000 - HOUR), at(12)).unwrap();
        assert!((11_900..=12_000).contains(&from.0), "{from:?}");
        assert_eq!(monitor.record(0, Timestamp(13_000 - HOUR), at(13)), None);
        assert!(monitor.is_trusted(0, seconds(13)));
    }

    #[test]
    fn an_answer_that_takes_long_is_no_step() {
        let mut monitor = steady();
        let late = ClockSample { asked: seconds(12), answered: seconds(60) };
        assert_eq!(monitor.record(0, Timestamp(12_000), late), None);
        assert_eq!(monitor.record(0, Timestamp(61_000), at(61)), None);
        assert!(monitor.is_trusted(0, seconds(61)));
    }

    #[test]
    fn shards_have_clocks_of_their_own() {
        let mut monitor = steady();
        assert!(!monitor.is_trusted(1, seconds(60)));
        monitor.record(1, Timestamp(HOUR), at(12));
        assert!(monitor.is_trusted(0, seconds(12)) && monitor.is_trusted(1, seconds(23)));
    }
}

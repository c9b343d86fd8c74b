//! Notices when somebody sets a store's clock, by comparing it with a clock that nobody can set.
//!
//! Leases end by the store's clock. When it is set forward, the leases of live workers seem to have run out; when it is set
//! back, jobs that were ready seem to be due later.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::{Timestamp, millis};
use crate::lease::MAX_HEARTBEAT;

/// After a step forward nothing is rescued for so long: every worker that lives has extended its leases by then.
const DISTRUST_AFTER_STEP: Duration = Duration::from_millis(MAX_HEARTBEAT.as_millis() as u64 * 3 / 2);

/// The clocks of a store's shards, as they were last seen.
#[derive(Debug)]
pub struct ClockMonitor {
    /// How often leases are extended.
    beat: Duration,
    shards: HashMap<u16, ShardClock>,
}

#[derive(Debug, Clone, Copy)]
struct ShardClock {
    time: Timestamp,
    asked: Duration,
    answered: Duration,
    doubted_until: Duration,
}

/// When a store was asked for the time and when it answered, by a clock that nobody can set.
#[derive(Debug, Clone, Copy)]
pub struct ClockSample {
    /// Asked.
    pub asked: Duration,
    /// Answered.
    pub answered: Duration,
}

impl ClockMonitor {
    /// A watch that has seen nothing. `beat` is how often leases are extended.
    pub fn new(beat: Duration) -> Self {
        Self { beat, shards: HashMap::new() }
    }

    /// Notes what a shard's clock has shown. If it was set back, returns what it would show had it not been.
    ///
    /// A clock that is seen for the first time may have been set a moment ago: it is trusted after a beat. With a lease of 30 s or
    /// more that is as long as any live worker takes to extend its leases. With a shorter one it is not: to wait longer would
    /// delay the rescue by a lone worker that was restarted, which is far more frequent than a step.
    pub fn record(&mut self, shard: u16, time: Timestamp, asked: ClockSample) -> Option<Timestamp> {
        let before = self.shards.get(&shard).copied();
        let mut doubted_until = before.map_or(asked.answered + self.beat, |seen| seen.doubted_until);
        let mut set_back_from = None;
        if let Some(seen) = before {
            let passed = time.0.saturating_sub(seen.time.0);
            let least = millis(asked.asked.saturating_sub(seen.answered));
            let most = millis(asked.answered.saturating_sub(seen.asked));
            let tolerance = millis(self.beat / 2);
            if passed > most.saturating_add(tolerance) {
                doubted_until = asked.answered + DISTRUST_AFTER_STEP.max(self.beat);
            } else if passed < least.saturating_sub(tolerance) {
                set_back_from = Some(Timestamp(seen.time.0.saturating_add(least)));
            }
        }
        let ClockSample { asked: at, answered } = asked;
        self.shards.insert(shard, ShardClock { time, asked: at, answered, doubted_until });
        set_back_from
    }

    /// Whether leases that have run out by a shard's clock have really run out.
    pub fn is_trusted(&self, shard: u16, now: Duration) -> bool {
        self.shards.get(&shard).is_some_and(|seen| seen.doubted_until <= now)
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

    /// A watch that trusts a clock which shows ten seconds.
    fn steady() -> ClockMonitor {
        let mut watch = ClockMonitor::new(seconds(10));
        assert_eq!(watch.record(0, Timestamp(0), at(0)), None);
        assert!(!watch.is_trusted(0, seconds(5)), "it may have been set a moment ago");
        assert_eq!(watch.record(0, Timestamp(11_000), at(11)), None);
        assert!(watch.is_trusted(0, seconds(11)));
        watch
    }

    #[test]
    fn a_clock_that_was_set_forward_is_doubted_for_a_while() {
        let mut watch = steady();
        assert_eq!(watch.record(0, Timestamp(12_000 + HOUR), at(12)), None);
        assert!(!watch.is_trusted(0, seconds(13)));
        assert_eq!(watch.record(0, Timestamp(13_000 + HOUR), at(13)), None);
        assert!(!watch.is_trusted(0, seconds(13)) && watch.is_trusted(0, seconds(28)));
    }

    #[test]
    fn a_clock_that_was_set_back_says_what_it_would_show() {
        let mut watch = steady();
        let from = watch.record(0, Timestamp(12_000 - HOUR), at(12)).unwrap();
        assert!((11_900..=12_000).contains(&from.0), "{from:?}");
        assert_eq!(watch.record(0, Timestamp(13_000 - HOUR), at(13)), None);
        assert!(watch.is_trusted(0, seconds(13)));
    }

    #[test]
    fn an_answer_that_takes_long_is_no_step() {
        let mut watch = steady();
        let late = ClockSample { asked: seconds(12), answered: seconds(60) };
        assert_eq!(watch.record(0, Timestamp(12_000), late), None);
        assert_eq!(watch.record(0, Timestamp(61_000), at(61)), None);
        assert!(watch.is_trusted(0, seconds(61)));
    }

    #[test]
    fn shards_have_clocks_of_their_own() {
        let mut watch = steady();
        assert!(!watch.is_trusted(1, seconds(60)));
        watch.record(1, Timestamp(HOUR), at(12));
        assert!(watch.is_trusted(0, seconds(12)) && watch.is_trusted(1, seconds(23)));
    }
}

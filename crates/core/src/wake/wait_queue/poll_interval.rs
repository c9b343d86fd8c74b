//! How often a queue is looked at although nobody has rung.

use std::time::Duration;

/// After a look that failed, the next one is made this soon: often enough that an outage is over for everyone
/// a moment after it is over, and seldom enough that a thousand claims do not make it worse.
pub(super) const FAILED_POLL_DELAY: Duration = Duration::from_millis(250);

/// How often a queue is looked at although nobody has rung: a lost wake-up costs this much. All who wait for
/// the queue in one process share these looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollInterval {
    range: Option<(Duration, Duration)>,
}

impl PollInterval {
    /// Never: every change is rung for.
    pub const NEVER: Self = Self { range: None };

    /// After `shortest` at first, then twice as long each time that nothing was found, up to `longest`.
    pub const fn new(shortest: Duration, longest: Duration) -> Self {
        Self { range: Some((shortest, longest)) }
    }

    /// The pause before the look after this many looks in vain. Up to a quarter shorter at random, so that a
    /// fleet does not look in step; never longer.
    pub(super) fn pause(self, vain: u32) -> Option<Duration> {
        let (shortest, longest) = self.range?;
        let pause = shortest.saturating_mul(2_u32.saturating_pow(vain)).min(longest);
        Some(pause.mul_f64(0.75 + 0.25 * fastrand::f64()))
    }

    /// The longest pause there is.
    pub(super) fn longest(self) -> Duration {
        self.range.map_or(Duration::MAX, |(_, longest)| longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_no_further() {
        let pace = PollInterval::new(Duration::from_secs(1), Duration::from_secs(4));
        for (vain, pause) in [(0, 1), (1, 2), (2, 4), (3, 4), (u32::MAX, 4)] {
            let found = pace.pause(vain).unwrap();
            let most = Duration::from_secs(pause);
            assert!(found <= most && found >= most.mul_f64(0.74), "{found:?} after {vain}");
        }
        assert_eq!(PollInterval::NEVER.pause(0), None);
    }
}

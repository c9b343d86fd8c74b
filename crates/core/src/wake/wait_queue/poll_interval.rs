//! The interval of regular polls.

use std::time::Duration;

/// The delay after a failed poll. Short enough that all claims recover soon after an outage; long
/// enough that a thousand claims do not prolong it.
pub(super) const FAILED_POLL_DELAY: Duration = Duration::from_millis(250);

/// The interval at which a queue is polled without a notification: a lost wake-up costs at most
/// this long. All waiters for a queue in one process share these polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollInterval {
    range: Option<(Duration, Duration)>,
}

impl PollInterval {
    /// No regular polls: every change is announced.
    pub const NEVER: Self = Self { range: None };

    /// Polls after `shortest` at first, then after twice the time whenever nothing was found, up to
    /// `longest`.
    pub const fn new(shortest: Duration, longest: Duration) -> Self {
        Self { range: Some((shortest, longest)) }
    }

    /// The delay before the next poll, after this many polls that found nothing. Randomly up to a
    /// quarter shorter, so that a fleet does not poll in step; never longer.
    pub(super) fn delay(self, empty_polls: u32) -> Option<Duration> {
        let (shortest, longest) = self.range?;
        let delay = shortest.saturating_mul(2_u32.saturating_pow(empty_polls)).min(longest);
        Some(delay.mul_f64(0.75 + 0.25 * fastrand::f64()))
    }

    /// The longest delay.
    pub(super) fn longest(self) -> Duration {
        self.range.map_or(Duration::MAX, |(_, longest)| longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_no_further() {
        let interval = PollInterval::new(Duration::from_secs(1), Duration::from_secs(4));
        for (empty_polls, delay) in [(0, 1), (1, 2), (2, 4), (3, 4), (u32::MAX, 4)] {
            let found = interval.delay(empty_polls).unwrap();
            let longest = Duration::from_secs(delay);
            assert!(found <= longest && found >= longest.mul_f64(0.74), "{found:?} after {empty_polls}");
        }
        assert_eq!(PollInterval::NEVER.delay(0), None);
    }
}

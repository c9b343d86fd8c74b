//! The retry policy of activities.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::clock::millis;
use crate::envelope::DEFAULT_MAX_ATTEMPTS;

/// The retry policy of an activity. The store retries: the journal has one entry for the activity,
/// however many attempts it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The number of attempts, including the first.
    #[serde(rename = "max")]
    pub max_attempts: u32,
    /// The delay after the first failure, in milliseconds; it doubles with each failure.
    pub base_ms: u64,
    /// The largest delay in milliseconds, without jitter.
    pub cap_ms: u64,
    /// The largest random addition, in milliseconds.
    #[serde(default)]
    pub jitter_ms: u64,
}

impl RetryPolicy {
    /// Tries up to `attempts` times, with the delays of [`Backoff::DEFAULT`].
    pub fn exponential(attempts: u32) -> Self {
        Self::new(attempts, &Backoff::DEFAULT)
    }

    /// Tries up to `attempts` times, always after the same delay.
    pub fn constant(attempts: u32, delay: Duration) -> Self {
        Self::new(attempts, &Backoff::constant(delay))
    }

    /// Tries once.
    pub fn never() -> Self {
        Self::exponential(1)
    }

    /// Tries up to `attempts` times, after the delays of `backoff`.
    pub fn new(attempts: u32, backoff: &Backoff) -> Self {
        Self {
            max_attempts: attempts.max(1),
            base_ms: whole_millis(backoff.base),
            cap_ms: whole_millis(backoff.max),
            jitter_ms: whole_millis(backoff.jitter),
        }
    }

    /// Sets the delay after the first failure.
    pub fn initial_delay(self, delay: Duration) -> Self {
        Self { base_ms: whole_millis(delay), ..self }
    }

    /// Sets the largest delay, without jitter.
    pub fn max_delay(self, delay: Duration) -> Self {
        Self { cap_ms: whole_millis(delay), ..self }
    }

    /// The delays, for the envelope of a job.
    pub fn backoff(&self) -> Backoff {
        Backoff {
            base: Duration::from_millis(self.base_ms),
            max: Duration::from_millis(self.cap_ms),
            jitter: Duration::from_millis(self.jitter_ms),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential(DEFAULT_MAX_ATTEMPTS)
    }
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(millis(duration)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_the_backoff_it_was_made_of() {
        let retry = RetryPolicy::exponential(5);
        assert_eq!((retry.max_attempts, retry.backoff()), (5, Backoff::DEFAULT));
        assert_eq!(RetryPolicy::constant(0, Duration::from_secs(2)).max_attempts, 1);
    }
}

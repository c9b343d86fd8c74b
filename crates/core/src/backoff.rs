//! Backoff: the delay before a failed job's next attempt.

use std::time::Duration;

/// Exponential backoff: `base * 2^attempt`, capped at `max`, plus up to `jitter`.
///
/// The jitter is added after the cap. If it was capped too, all jobs that fail for long would have
/// the same delay and retry at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub base: Duration,
    /// The largest delay, without jitter.
    pub max: Duration,
    /// The largest random addition.
    pub jitter: Duration,
}

impl Backoff {
    /// One second, doubling up to 300 s, with up to one second of jitter.
    pub const DEFAULT: Self =
        Self { base: Duration::from_secs(1), max: Duration::from_secs(300), jitter: Duration::from_secs(1) };

    /// `base` after the first failure, doubling up to `max`, with up to `base` of jitter.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidemill_core::Backoff;
    /// let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(10));
    /// assert_eq!(backoff.delay(3, 0.0), Duration::from_millis(800));
    /// assert_eq!(backoff.delay(20, 0.0), Duration::from_secs(10));
    /// ```
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Self { base, max, jitter: base }
    }

    /// Sets the largest random addition to a delay.
    pub const fn jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// The same delay after every failure.
    pub const fn constant(delay: Duration) -> Self {
        Self { base: delay, max: delay, jitter: Duration::ZERO }
    }

    /// The delay after failure number `attempt`, counted from 0. `random`, in 0.0..1.0, selects the
    /// jitter.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let grown = 2u32.checked_pow(attempt).and_then(|factor| self.base.checked_mul(factor));
        let capped = grown.map_or(self.max, |delay| delay.min(self.max));
        capped.saturating_add(self.jitter.mul_f64(random.clamp(0.0, 1.0)))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_cap_and_keeps_its_jitter_there() {
        let backoff = Backoff::DEFAULT;
        assert_eq!(backoff.delay(0, 0.0), Duration::from_secs(1));
        assert_eq!(backoff.delay(3, 0.0), Duration::from_secs(8));
        assert_eq!(backoff.delay(9, 0.0), Duration::from_secs(300));
        assert_eq!(backoff.delay(9, 0.5), Duration::from_millis(300_500));
    }

    #[test]
    fn survives_any_number_of_attempts() {
        assert_eq!(Backoff::DEFAULT.delay(u32::MAX, 0.0), Duration::from_secs(300));
    }
}

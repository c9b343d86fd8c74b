//! The growth rate of a counter over the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Long enough to avoid flicker, short enough to follow changes.
const WINDOW: Duration = Duration::from_secs(3);

/// Measures the rate of a counter.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    samples: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// Records the count at `now` and returns the growth per second.
    pub(crate) fn at(&mut self, now: Instant, count: u64) -> f64 {
        self.samples.push_back((now, count));
        while self.samples.len() > 2 && now - self.samples[1].0 >= WINDOW {
            self.samples.pop_front();
        }
        let (then, before) = self.samples[0];
        let seconds = (now - then).as_secs_f64();
        if seconds > 0.0 { count.saturating_sub(before) as f64 / seconds } else { 0.0 }
    }
}

/// Formats a rate with few digits.
pub(crate) fn per_second(rate: f64) -> String {
    if rate >= 10.0 || rate == 0.0 { format!("{rate:.0}/s") } else { format!("{rate:.1}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_is_long_past() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        let second = |n: u64| start + Duration::from_secs(n);
        assert_eq!(rate.at(second(0), 0), 0.0);
        assert_eq!(rate.at(second(1), 100), 100.0);
        for n in 2..10 {
            rate.at(second(n), 100);
        }
        assert_eq!(rate.at(second(10), 100), 0.0);
        assert_eq!(per_second(1234.5), "1234/s");
    }
}

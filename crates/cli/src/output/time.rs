//! Relative times: `in 4m`, `3s ago`.

use std::time::Duration;

use tidemill::Timestamp;

/// Formats `moment` relative to `now`.
pub(crate) fn relative(now: Timestamp, moment: Timestamp) -> String {
    if moment > now {
        format!("in {}", brief_duration(now.until(moment)))
    } else {
        format!("{} ago", brief_duration(moment.until(now)))
    }
}

/// Formats a duration in its largest unit.
pub(crate) fn brief_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.as_millis());
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_when_in_one_unit() {
        let now = Timestamp(1_000_000_000);
        let at = |offset: i64| relative(now, Timestamp(now.0 + offset));
        assert_eq!(at(250_000), "in 4m");
        assert_eq!(at(-3_900), "3s ago");
        assert_eq!(at(-90_000_000), "1d ago");
        assert_eq!(at(120), "in 120ms");
    }
}

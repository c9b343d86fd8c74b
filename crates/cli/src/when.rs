//! Times and durations as people write them. The only place that reads them.

use std::time::Duration;

use tidemill::Timestamp;

/// The units, longest first so that `ms` is not read as minutes.
const UNITS: [(&str, f64); 7] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
    ("w", 604_800.0),
    ("y", 31_536_000.0),
];

/// Reads `250ms`, `30s`, `5m`, `1h30m` or `2d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{:?} is no duration: write it like 250ms, 30s, 5m, 1h30m or 2d", shorten(text));
    let (mut rest, mut total) = (text.trim(), Duration::ZERO);
    if rest == "0" {
        return Ok(total);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (part, after) = part(rest).ok_or_else(wrong)?;
        let too_long = || format!("{:?} is longer than time itself", shorten(text));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(too_long)?;
        rest = after;
    }
    Ok(total)
}

/// The first number with its unit, and what follows; the inner `None` if it is beyond all bounds.
fn part(text: &str) -> Option<(Option<Duration>, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let letters = &text[digits..];
    let unit = &letters[..letters.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(letters.len())];
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    Some((Duration::try_from_secs_f64(number * seconds).ok(), &letters[unit.len()..]))
}

/// A moment, absolute or from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// After this long.
    In(Duration),
    /// At this time.
    At(Timestamp),
}

/// Reads `2025-01-01T09:00:00Z` (RFC 3339) or `+5m`.
pub(crate) fn when(text: &str) -> Result<When, String> {
    match text.trim().strip_prefix('+') {
        Some(after) => duration(after).map(When::In),
        None => text.trim().parse().map(When::At).map_err(|_| no_time(text)),
    }
}

fn no_time(text: &str) -> String {
    let shown = shorten(text);
    // The last hours of the year 9999, and everything after it, are beyond what a timestamp can hold.
    let year = text.trim().split('-').next().filter(|year| year.len() >= 4);
    if year.and_then(|year| year.parse::<u64>().ok()).is_some_and(|year| year >= 9_999) {
        return format!("{shown:?} is too late: at most 100 years ahead are allowed");
    }
    format!("{shown:?} is no time: write it like 2025-01-31T09:00:00Z, 2025-01-31T09:00:00+02:00 or +5m")
}

/// A hostile text may be a megabyte long; an error message must not be.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let cases = [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("0", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(when("+2d"), Ok(When::In(Duration::from_secs(172_800))));
        assert_eq!(when("1970-01-01T00:00:01Z"), Ok(When::At(Timestamp(1_000))));
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in ["", "5", "m", "5x", "-5m", "5m3", "1..2s", "5 m", "é5m", "5é"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
        assert!(duration(&format!("{}w", "9".repeat(40))).unwrap_err().contains("longer than time"));
        for text in ["", "tomorrow", "2025-01-01", "+", "5m"] {
            assert!(when(text).unwrap_err().contains("is no") || text == "+", "{text:?}");
        }
        for text in ["9999-12-31T23:59:59Z", "12025-01-01T00:00:00Z"] {
            assert!(when(text).unwrap_err().contains("too late"), "{text:?}");
        }
    }
}

//! Parsing of times and durations on the command line.

use std::time::Duration;

use tidemill::Timestamp;

/// The units. The whole unit is compared, so `ms` is not read as minutes.
const UNITS: [(&str, f64); 7] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
    ("w", 604_800.0),
    ("y", 31_536_000.0),
];

/// Parses `250ms`, `30s`, `5m`, `1h30m` or `2d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{:?} is not a duration: write it like 250ms, 30s, 5m, 1h30m or 2d", shorten(text));
    let (mut rest, mut total) = (text.trim(), Duration::ZERO);
    if rest == "0" {
        return Ok(total);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (part, after) = parse_part(rest).ok_or_else(wrong)?;
        let too_long = || format!("{:?} is too long", shorten(text));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(too_long)?;
        rest = after;
    }
    Ok(total)
}

/// Parses the first number with its unit and returns the rest; the inner `None` is an overflow.
fn parse_part(text: &str) -> Option<(Option<Duration>, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let letters = &text[digits..];
    let unit = &letters[..letters.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(letters.len())];
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    Some((Duration::try_from_secs_f64(number * seconds).ok(), &letters[unit.len()..]))
}

/// A time, absolute or relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeArg {
    /// After this long.
    In(Duration),
    /// At this time.
    At(Timestamp),
}

/// Parses `2025-01-01T09:00:00Z` (RFC 3339) or `+5m`.
pub(crate) fn parse_time(text: &str) -> Result<TimeArg, String> {
    match text.trim().strip_prefix('+') {
        Some(after) => parse_duration(after).map(TimeArg::In),
        None => text.trim().parse().map(TimeArg::At).map_err(|_| invalid_time(text)),
    }
}

fn invalid_time(text: &str) -> String {
    let shown = shorten(text);
    // A timestamp cannot represent the last hours of the year 9999, nor later years.
    let year = text.trim().split('-').next().filter(|year| year.len() >= 4);
    if year.and_then(|year| year.parse::<u64>().ok()).is_some_and(|year| year >= 9_999) {
        return format!("{shown:?} is too late: at most 100 years ahead are allowed");
    }
    format!("{shown:?} is not a time: write it like 2025-01-31T09:00:00Z, 2025-01-31T09:00:00+02:00 or +5m")
}

/// Bounds the length of the error message, because the argument may be a megabyte long.
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
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_time("+2d"), Ok(TimeArg::In(Duration::from_secs(172_800))));
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(TimeArg::At(Timestamp(1_000))));
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in ["", "5", "m", "5x", "-5m", "5m3", "1..2s", "5 m", "é5m", "5é"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
        assert!(parse_duration(&format!("{}w", "9".repeat(40))).unwrap_err().contains("is too long"));
        for text in ["", "tomorrow", "2025-01-01", "+", "5m"] {
            assert!(parse_time(text).unwrap_err().contains("is not a") || text == "+", "{text:?}");
        }
        for text in ["9999-12-31T23:59:59Z", "12025-01-01T00:00:00Z"] {
            assert!(parse_time(text).unwrap_err().contains("too late"), "{text:?}");
        }
    }
}

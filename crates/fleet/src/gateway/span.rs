//! Spans of time as clients write them.

use std::time::Duration;

/// Reads `250ms`, `60s`, `5m`, `1h`, or a number of seconds.
pub(crate) fn read(text: &str) -> Result<Duration, String> {
    let wrong = || "a span of time is written like 250ms, 60s, 5m or 1h".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let millis = match &text[digits..] {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_clients_write() {
        for (text, millis) in
            [("60", 60_000), ("60s", 60_000), ("250ms", 250), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(read(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(
            ["", "s", "-1s", "1d2", "1.5s", "99999999999999999h"].into_iter().all(|text| read(text).is_err())
        );
    }
}

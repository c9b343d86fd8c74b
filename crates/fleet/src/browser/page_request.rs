//! The page request that all built-in jobs share.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use super::error::PageError;

/// The default timeout of a page visit.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest timeout of a page visit.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// When a page is ready: `load`, `networkidle`, a number of milliseconds after the load, or a
/// selector that must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WaitUntilJson", into = "WaitUntilJson")]
pub enum WaitUntil {
    /// The page has loaded.
    #[default]
    Load,
    /// The page has loaded, and its network has been idle for half a second.
    NetworkIdle,
    /// The page has loaded, and so many milliseconds have passed.
    Millis(u64),
    /// An element matches this selector, whether the page has loaded or not.
    Selector(String),
}

/// [`WaitUntil`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "`load`, `networkidle`, a number of milliseconds or a selector")]
enum WaitUntilJson {
    Millis(u64),
    Word(String),
}

impl From<WaitUntilJson> for WaitUntil {
    fn from(json: WaitUntilJson) -> Self {
        match json {
            WaitUntilJson::Millis(millis) => Self::Millis(millis),
            WaitUntilJson::Word(word) if word == "load" => Self::Load,
            WaitUntilJson::Word(word) if word == "networkidle" => Self::NetworkIdle,
            WaitUntilJson::Word(selector) => Self::Selector(selector),
        }
    }
}

impl From<WaitUntil> for WaitUntilJson {
    fn from(wait: WaitUntil) -> Self {
        match wait {
            WaitUntil::Load => Self::Word("load".into()),
            WaitUntil::NetworkIdle => Self::Word("networkidle".into()),
            WaitUntil::Millis(millis) => Self::Millis(millis),
            WaitUntil::Selector(selector) => Self::Word(selector),
        }
    }
}

/// A valid page to visit.
#[derive(Debug, Clone)]
pub(super) struct PageRequest {
    pub(super) url: Url,
    pub(super) wait: WaitUntil,
    pub(super) timeout: Duration,
    /// Width and height of the window.
    pub(super) window: (u32, u32),
    /// Whether a 4xx response is a success.
    pub(super) accept_client_errors: bool,
}

impl PageRequest {
    /// Checks a payload. It depends on nothing else, so an invalid payload stays invalid.
    pub(super) fn new(url: &str, wait: &WaitUntil, timeout: Option<u64>) -> Result<Self, PageError> {
        let url = Url::parse(url).map_err(|error| PageError::Invalid(format!("url {url:?}: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            let error =
                format!("url {:?}: only http and https are visited, not {}", truncate(&url), url.scheme());
            return Err(PageError::Invalid(error));
        }
        let timeout = timeout.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            return Err(PageError::Invalid(format!(
                "timeout: must be from 1 to {} ms",
                MAX_TIMEOUT.as_millis()
            )));
        }
        if let WaitUntil::Selector(selector) = wait {
            require_non_empty("wait", selector)?;
        }
        Ok(Self { url, wait: wait.clone(), timeout, window: (1280, 720), accept_client_errors: false })
    }
}

/// Rejects an empty text.
pub(super) fn require_non_empty(field: &str, text: &str) -> Result<(), PageError> {
    if text.trim().is_empty() {
        Err(PageError::Invalid(format!("{field}: must not be empty")))
    } else {
        Ok(())
    }
}

fn truncate(url: &Url) -> String {
    url.as_str().chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_pages_are_visited() {
        for url in [
            "file:///etc/passwd",
            "data:text/html,x",
            "javascript:alert(1)",
            "ftp://a/b",
            "about:blank",
            "a b",
            "",
        ] {
            assert!(
                matches!(PageRequest::new(url, &WaitUntil::Load, None), Err(PageError::Invalid(_))),
                "{url}"
            );
        }
        assert!(PageRequest::new("https://example.com", &WaitUntil::Load, None).is_ok());
    }

    #[test]
    fn a_time_is_neither_nothing_nor_endless() {
        for timeout in [0, 600_001] {
            assert!(PageRequest::new("http://a", &WaitUntil::Load, Some(timeout)).is_err());
        }
    }

    #[test]
    fn what_to_wait_for_reads_back_as_it_is_written() {
        for json in [r#""load""#, r#""networkidle""#, "250", r##""#main .row""##] {
            let wait: WaitUntil = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&wait).unwrap(), json);
        }
        assert!(
            serde_json::from_str::<WaitUntil>("-1").is_err()
                && serde_json::from_str::<WaitUntil>("true").is_err()
        );
    }
}

//! What every built-in job says about the page it wants.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use super::failure::Failure;

/// How long a job has for its page unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The longest it may have.
const LONGEST: Duration = Duration::from_secs(600);

/// When a page is ready: the words `load` and `networkidle`, a number of milliseconds after it has loaded, or a selector
/// that must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum Wait {
    /// It has loaded.
    #[default]
    Load,
    /// It has loaded, and then asked nothing of the network for half a second.
    NetworkIdle,
    /// It has loaded, and so many milliseconds have passed.
    Millis(u64),
    /// Something in it matches this selector, whether it has loaded or not.
    Selector(String),
}

/// [`Wait`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "`load`, `networkidle`, a number of milliseconds or a selector")]
enum Written {
    Millis(u64),
    Word(String),
}

impl From<Written> for Wait {
    fn from(written: Written) -> Self {
        match written {
            Written::Millis(millis) => Self::Millis(millis),
            Written::Word(word) if word == "load" => Self::Load,
            Written::Word(word) if word == "networkidle" => Self::NetworkIdle,
            Written::Word(selector) => Self::Selector(selector),
        }
    }
}

impl From<Wait> for Written {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Load => Self::Word("load".into()),
            Wait::NetworkIdle => Self::Word("networkidle".into()),
            Wait::Millis(millis) => Self::Millis(millis),
            Wait::Selector(selector) => Self::Word(selector),
        }
    }
}

/// A page to visit, checked.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) url: Url,
    pub(super) wait: Wait,
    pub(super) timeout: Duration,
    /// How large the window is.
    pub(super) window: (u32, u32),
    /// Whether an answer of 4xx is a page like any other.
    pub(super) any_status: bool,
}

impl Visit {
    /// Checks what a job says. Nothing here depends on anything but the payload: what is wrong stays wrong.
    pub(super) fn new(url: &str, wait: &Wait, timeout: Option<u64>) -> Result<Self, Failure> {
        let url = Url::parse(url).map_err(|error| Failure::Invalid(format!("url {url:?}: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            let error =
                format!("url {:?}: only http and https are visited, not {}", shown(&url), url.scheme());
            return Err(Failure::Invalid(error));
        }
        let timeout = timeout.map_or(TIMEOUT, Duration::from_millis);
        if timeout.is_zero() || timeout > LONGEST {
            return Err(Failure::Invalid(format!("timeout: must be from 1 to {} ms", LONGEST.as_millis())));
        }
        if let Wait::Selector(selector) = wait {
            present("wait", selector)?;
        }
        Ok(Self { url, wait: wait.clone(), timeout, window: (1280, 720), any_status: false })
    }
}

/// A text that must not be empty.
pub(super) fn present(field: &str, text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() { Err(Failure::Invalid(format!("{field}: must not be empty"))) } else { Ok(()) }
}

fn shown(url: &Url) -> String {
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
            assert!(matches!(Visit::new(url, &Wait::Load, None), Err(Failure::Invalid(_))), "{url}");
        }
        assert!(Visit::new("https://example.com", &Wait::Load, None).is_ok());
    }

    #[test]
    fn a_time_is_neither_nothing_nor_endless() {
        for timeout in [0, 600_001] {
            assert!(Visit::new("http://a", &Wait::Load, Some(timeout)).is_err());
        }
    }

    #[test]
    fn what_to_wait_for_reads_back_as_it_is_written() {
        for json in [r#""load""#, r#""networkidle""#, "250", r##""#main .row""##] {
            let wait: Wait = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&wait).unwrap(), json);
        }
        assert!(serde_json::from_str::<Wait>("-1").is_err() && serde_json::from_str::<Wait>("true").is_err());
    }
}

//! Errors of a browser's pages and commands.

use std::time::Duration;

/// Why a browser did not do what a handler asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// The browser answered a command with an error.
    #[error("{method}: {message} ({code})")]
    Command {
        /// The command.
        method: String,
        /// The browser's error code.
        code: i64,
        /// The browser's error message.
        message: String,
    },
    /// There is no page at this URL, or it could not be loaded.
    #[error("{url}: {error}")]
    Navigation {
        /// The URL.
        url: String,
        /// Chromium's error, such as `net::ERR_CONNECTION_REFUSED`.
        error: String,
    },
    /// The browser cannot be connected to.
    #[error("cannot connect to the browser: {0}")]
    Connect(String),
    /// The URL is not valid, or its scheme is not http or https.
    #[error("{0}")]
    InvalidUrl(String),
    /// The page is at an address that the egress policy refuses.
    #[error("refused: {0}")]
    Forbidden(String),
    /// A script threw an exception.
    #[error("{0}")]
    Script(String),
    /// The browser did not complete a command in time.
    #[error("{method} was not done within {after:?}")]
    Timeout {
        /// The command.
        method: String,
        /// How long the browser had.
        after: Duration,
    },
    /// The page was closed, or the connection to the browser has ended.
    #[error("the page or the connection to the browser is closed")]
    Closed,
    /// A value has another type than the caller expects.
    #[error("{method}: {source}")]
    Json {
        /// The command or event.
        method: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Binary data of the browser is not valid base64.
    #[error("invalid base64: {0}")]
    Base64(#[from] base64::DecodeError),
}

impl BrowserError {
    pub(super) fn json(method: &str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Json { method: method.to_owned(), source }
    }
}

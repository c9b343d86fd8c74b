//! Errors of browser jobs, and what they do to the job.

use std::fmt;
use std::time::Duration;

use tidemill_core::DeathReason;
use tidemill_core::fleet::WorkerKey;
use tidemill_worker::{Fail, JobContext};

use super::frame_limit::RESPONSE_TOO_LARGE_CODE;
use crate::cdp::BrowserError;

/// The least and the longest postponement of a job that got no browser.
const REST: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

/// Why a job got no browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AcquireError {
    /// All browsers are in use.
    AllBusy { ahead: u32, workers: u32 },
    /// Too many clients wait already.
    QueueFull { waiting: u32, workers: u32 },
    /// The last browser could not be used.
    Unusable { worker: WorkerKey, error: ConnectError },
    /// This worker's configuration can use none of the fleet's browsers.
    NoneUsable(ConnectError),
    /// The store failed.
    Store(String),
}

/// Why a browser could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectError {
    /// It cannot reach a proxy on this machine's loopback.
    #[error(
        "it is on another machine and cannot reach this worker's proxy: say where that is to be with --proxy-listen \
         and --proxy-advertise (`Browsers::proxy_at`)"
    )]
    OtherMachine,
    /// The egress proxy cannot listen.
    #[error("this worker cannot open a proxy where --proxy-listen (`Browsers::proxy_at`) says: {0}")]
    ProxyUnavailable(String),
    /// It does not answer, or not like a browser.
    #[error("{0}")]
    Failed(String),
}

impl ConnectError {
    /// Whether this worker's configuration is the cause, so that the next browser would fail too.
    pub(super) fn is_config_error(&self) -> bool {
        matches!(self, Self::OtherMachine | Self::ProxyUnavailable(_))
    }
}

impl From<String> for ConnectError {
    fn from(error: String) -> Self {
        Self::Failed(error)
    }
}

impl Default for AcquireError {
    fn default() -> Self {
        Self::AllBusy { ahead: 0, workers: 0 }
    }
}

impl AcquireError {
    /// Records that the job waits. An earlier unusable browser says more and stays.
    pub(super) fn set_waiting(&mut self, ahead: u32, workers: u32) {
        if !matches!(self, Self::Unusable { .. }) {
            *self = Self::AllBusy { ahead, workers };
        }
    }

    /// Postpones the job, longer each time. No attempt is counted: the job is not at fault.
    pub(super) fn into_fail(self, cx: &JobContext) -> Fail {
        let [first, longest] = REST;
        let after = first.saturating_mul(1 << cx.envelope().postponed().min(16)).min(longest);
        Fail::postpone(self, after.mul_f64(1.0 + 0.25 * fastrand::f64()))
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllBusy { workers: 0, .. } => f.write_str("no browser: none is in the fleet"),
            Self::AllBusy { ahead, workers } => {
                write!(
                    f,
                    "no browser was free: the fleet has {workers}, and {ahead} jobs or clients were before this one"
                )
            }
            Self::QueueFull { waiting, workers } => {
                write!(f, "no browser was free: the fleet has {workers}, and {waiting} wait already")
            }
            Self::Unusable { worker, error } => write!(f, "no browser could be used; {worker}: {error}"),
            Self::NoneUsable(ConnectError::OtherMachine) => {
                write!(f, "no browser could be used; of each in the fleet: {}", ConnectError::OtherMachine)
            }
            Self::NoneUsable(error) => write!(f, "no browser could be used: {error}"),
            Self::Store(error) => write!(f, "no browser: {error}"),
        }
    }
}

/// Why a page visit failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PageError {
    /// The payload is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The page is, or led to, a refused address.
    #[error("refused: {0}; a worker started with --allow-host or --allow-private can allow it")]
    Forbidden(String),
    /// A status that will not change.
    #[error("{url} answered {status}")]
    Status { url: String, status: u16 },
    /// A status that may change.
    #[error("{url} answered {status}")]
    Unavailable { url: String, status: u16 },
    /// The URL is not a page: a download, or nothing at all.
    #[error("{0} is no page")]
    NotAPage(String),
    /// The output is larger than allowed.
    #[error("the output has {0} bytes, more than the {1} it may have")]
    TooLarge(usize, usize),
    /// The browser's response is larger than a message may be.
    #[error("{0}")]
    MessageTooLarge(String),
    /// The page was not done in time.
    #[error("timeout: {0}")]
    Timeout(String),
    /// Anything else: the network, the browser.
    #[error("{0}")]
    Failed(String),
}

impl From<BrowserError> for PageError {
    fn from(error: BrowserError) -> Self {
        match error {
            BrowserError::Command { code: RESPONSE_TOO_LARGE_CODE, message, .. } => {
                Self::MessageTooLarge(message)
            }
            error @ BrowserError::Timeout { .. } => Self::Timeout(error.to_string()),
            error => Self::Failed(format!("the browser: {error}")),
        }
    }
}

impl PageError {
    /// The job's failure, with the addresses its pages were refused and the events that were
    /// dropped.
    pub(super) fn into_fail(self, refused: &[String], oversized: &[String]) -> Fail {
        let mut error = self.to_string();
        if !refused.is_empty() && !matches!(self, Self::Forbidden(_)) {
            error.push_str(&format!(" (refused to the page: {})", refused.join(", ")));
        }
        if !oversized.is_empty() {
            error.push_str(&format!(" (left out, too large: {})", oversized.join(", ")));
        }
        match self {
            Self::Invalid(_) => Fail::dead(DeathReason::InvalidPayload, error),
            Self::Forbidden(_) => Fail::dead("forbidden_address", error),
            Self::Status { .. } => Fail::dead("http_status", error),
            Self::NotAPage(_) => Fail::dead("not_a_page", error),
            Self::TooLarge(..) | Self::MessageTooLarge(_) => Fail::dead("output_too_large", error),
            Self::Unavailable { .. } | Self::Timeout(_) | Self::Failed(_) => Fail::retry(error),
        }
    }
}

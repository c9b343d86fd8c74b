//! What went wrong with a browser job, and what becomes of the job then.

use std::fmt;
use std::time::Duration;

use chromiumoxide::error::CdpError;
use tidemill_core::DeathReason;
use tidemill_core::fleet::WorkerKey;
use tidemill_worker::{Fail, JobContext};

use super::sieve::TOO_LARGE;

/// How long a job rests at first, and at the longest, for which there was no browser.
const REST: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

/// Why a job got no browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoBrowser {
    /// All are taken.
    Taken { ahead: u32, workers: u32 },
    /// Too many wait already.
    LineFull { waiting: u32, workers: u32 },
    /// The last one that was given could not be used.
    Unusable { member: WorkerKey, error: Unopened },
    /// This worker can use none of the fleet's, because of how it is set up.
    Misfit(Unopened),
    /// The store did not say.
    Store(String),
}

/// Why a browser could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unopened {
    /// It cannot reach a proxy on this machine's loopback.
    #[error(
        "it is on another machine and cannot reach this worker's proxy: say where that is to be with --proxy-listen \
         and --proxy-advertise (`Browsers::proxy_at`)"
    )]
    Elsewhere,
    /// The proxy that it is to use cannot be opened.
    #[error("this worker cannot open a proxy where --proxy-listen (`Browsers::proxy_at`) says: {0}")]
    NoProxy(String),
    /// It does not answer, or not as a browser does.
    #[error("{0}")]
    Broken(String),
}

impl Unopened {
    /// Whether this worker is at fault, so that the next browser would be no better.
    pub(super) fn is_misfit(&self) -> bool {
        matches!(self, Self::Elsewhere | Self::NoProxy(_))
    }
}

impl From<String> for Unopened {
    fn from(error: String) -> Self {
        Self::Broken(error)
    }
}

impl Default for NoBrowser {
    fn default() -> Self {
        Self::Taken { ahead: 0, workers: 0 }
    }
}

impl NoBrowser {
    /// It waits; but if one was given that could not be used, that says more.
    pub(super) fn is_waiting(&mut self, ahead: u32, workers: u32) {
        if !matches!(self, Self::Unusable { .. }) {
            *self = Self::Taken { ahead, workers };
        }
    }

    /// The job goes back, the longer the more often this has happened, and no attempt is counted: it is no fault of its.
    pub(super) fn into_fail(self, cx: &JobContext) -> Fail {
        let [first, longest] = REST;
        let after = first.saturating_mul(1 << cx.envelope().postponed().min(16)).min(longest);
        Fail::postpone(self, after.mul_f64(1.0 + 0.25 * fastrand::f64()))
    }
}

impl fmt::Display for NoBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { workers: 0, .. } => f.write_str("no browser: none is in the fleet"),
            Self::Taken { ahead, workers } => {
                write!(
                    f,
                    "no browser was free: the fleet has {workers}, and {ahead} jobs or clients were before this one"
                )
            }
            Self::LineFull { waiting, workers } => {
                write!(f, "no browser was free: the fleet has {workers}, and {waiting} wait already")
            }
            Self::Unusable { member, error } => write!(f, "no browser could be used; {member}: {error}"),
            Self::Misfit(Unopened::Elsewhere) => {
                write!(f, "no browser could be used; of each in the fleet: {}", Unopened::Elsewhere)
            }
            Self::Misfit(error) => write!(f, "no browser could be used: {error}"),
            Self::Store(error) => write!(f, "no browser: {error}"),
        }
    }
}

/// Why a visit to a page came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// What the job asks for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The page is, or led to, an address that must not be reached.
    #[error("refused: {0}")]
    Forbidden(String),
    /// The server says that it is of no use to ask again.
    #[error("{url} answered {status}")]
    Status { url: String, status: u16 },
    /// The server says that it may be of use to ask later.
    #[error("{url} answered {status}")]
    Unavailable { url: String, status: u16 },
    /// There is something, but no page: a download, or nothing at all.
    #[error("{0} is no page")]
    NotAPage(String),
    /// It came to more than a job may.
    #[error("the output has {0} bytes, more than the {1} it may have")]
    TooLarge(usize, usize),
    /// The browser's answer came to more than a message may.
    #[error("{0}")]
    Oversized(String),
    /// It took too long.
    #[error("timeout: {0}")]
    Timeout(String),
    /// Anything else: the network, the browser.
    #[error("{0}")]
    Broken(String),
}

impl From<CdpError> for Failure {
    fn from(error: CdpError) -> Self {
        match error {
            CdpError::Chrome(error) if error.code == TOO_LARGE => Self::Oversized(error.message),
            error => Self::Broken(format!("the browser: {error}")),
        }
    }
}

impl Failure {
    /// What becomes of the job, with whatever its pages were refused and what nobody heard of them.
    pub(super) fn into_fail(self, refused: &[String], left_out: &[String]) -> Fail {
        let mut error = self.to_string();
        if !refused.is_empty() && !matches!(self, Self::Forbidden(_)) {
            error.push_str(&format!(" (refused to the page: {})", refused.join(", ")));
        }
        if !left_out.is_empty() {
            error.push_str(&format!(" (left out, too large: {})", left_out.join(", ")));
        }
        match self {
            Self::Invalid(_) => Fail::dead(DeathReason::InvalidPayload, error),
            Self::Forbidden(_) => Fail::dead("forbidden_address", error),
            Self::Status { .. } => Fail::dead("http_status", error),
            Self::NotAPage(_) => Fail::dead("not_a_page", error),
            Self::TooLarge(..) | Self::Oversized(_) => Fail::dead("output_too_large", error),
            Self::Unavailable { .. } | Self::Timeout(_) | Self::Broken(_) => Fail::retry(error),
        }
    }
}

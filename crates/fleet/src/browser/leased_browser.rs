//! The extractor of a handler that needs a browser.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_worker::{Extract, Fail, JobContext, MissingState, StateMap};
use url::Url;

use super::connection::BrowserConnection;
use super::egress::BlockedLog;
use super::lazy_browser::LazyBrowser;
use super::pool::BrowserPool;
use crate::cdp::{BrowserError, BrowserPage, COMMAND_TIMEOUT};
use crate::lease::{CloseSignal, HeldSession};

/// A browser of the fleet, leased for one job.
///
/// The worker acquires it before the handler runs and releases it when the handler ends, also after
/// a panic, a timeout or a cancellation. If the process dies, the lease expires. Its pages live in
/// a browser context of their own, which is discarded with them, and reach only what
/// [`Browsers`](super::Browsers) allows.
///
/// If no browser is free within [`Browsers::wait`](super::Browsers::wait), the job is postponed
/// without counting an attempt.
pub struct Browser {
    connection: BrowserConnection,
    worker: WorkerKey,
    close: CloseSignal,
    max_output_bytes: usize,
    /// The last field, so that the connection closes before the browser is released.
    held: HeldSession,
}

impl Browser {
    pub(super) fn new(
        connection: BrowserConnection,
        worker: WorkerKey,
        close: CloseSignal,
        held: HeldSession,
        max_output_bytes: usize,
    ) -> Self {
        Self { connection, worker, close, max_output_bytes, held }
    }

    /// Opens a page and waits until it has loaded, for at most 30 seconds.
    ///
    /// # Errors
    ///
    /// Behind the egress proxy, only http and https are allowed ([`BrowserError::InvalidUrl`]), and a
    /// refused address is [`BrowserError::Forbidden`]. Otherwise as [`BrowserPage::goto`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the page may stay open until the job ends.
    pub async fn page(&self, url: &str) -> Result<BrowserPage, BrowserError> {
        let parsed =
            Url::parse(url).map_err(|error| BrowserError::InvalidUrl(format!("{url:?}: {error}")))?;
        if self.connection.is_proxied() && !matches!(parsed.scheme(), "http" | "https") {
            let error = format!("only http and https are visited, not {}", parsed.scheme());
            return Err(BrowserError::InvalidUrl(error));
        }
        let page = self.blank().await?;
        page.goto(url).await?;
        match self.find_refused(&page.url()) {
            Some(refused) => Err(BrowserError::Forbidden(refused)),
            None => Ok(page),
        }
    }

    /// Opens an empty page.
    ///
    /// # Errors
    ///
    /// [`BrowserError::Closed`] if the browser is lost.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the page may stay open until the job ends.
    pub async fn blank(&self) -> Result<BrowserPage, BrowserError> {
        BrowserPage::open(&self.connection.cdp, &self.connection.context).await
    }

    /// Calls a command of the browser itself, such as `Browser.getVersion`. Pages that it opens outside
    /// [the job's context](Self::context_id) bypass the egress proxy and are not discarded.
    ///
    /// # Errors
    ///
    /// As [`BrowserPage::call`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the browser may execute the command all the same.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, BrowserError> {
        self.connection.cdp.call_method(None, method, &params, COMMAND_TIMEOUT).await
    }

    /// The id of the job's browser context.
    pub fn context_id(&self) -> &str {
        &self.connection.context
    }

    /// Connects chromiumoxide to this browser, for handlers that drive pages with it. It has a
    /// connection of its own, which ends with the lease.
    ///
    /// # Errors
    ///
    /// [`BrowserError::Connect`] if the browser cannot be connected to.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    #[cfg(feature = "chromiumoxide")]
    pub async fn chromiumoxide(&self) -> Result<super::ChromiumoxideBrowser, BrowserError> {
        self.connection.chromiumoxide.connect(&self.connection.context).await
    }

    /// The session's id in the fleet.
    pub fn session(&self) -> &SessionId {
        &self.held.session
    }

    /// The worker that runs the browser.
    pub fn worker(&self) -> &WorkerKey {
        &self.worker
    }

    /// Addresses that pages tried to reach and the policy refused, such as `169.254.169.254:80`;
    /// the first few.
    pub fn refused(&self) -> Vec<String> {
        self.connection.blocked.refused()
    }

    /// Addresses that pages tried to reach and that failed, with the reason; the first few.
    pub fn unreachable(&self) -> Vec<String> {
        self.connection.blocked.failed()
    }

    /// Events that were dropped because they were too large, such as `Runtime.consoleAPICalled
    /// (50000340 bytes)`; the first few. See
    /// [`Browsers::max_output_bytes`](super::Browsers::max_output_bytes).
    pub fn oversized_messages(&self) -> Vec<String> {
        self.connection.oversized.list()
    }

    /// Whether the session was closed or lost. Every call fails from then on.
    pub fn is_lost(&self) -> bool {
        self.close.token().is_cancelled()
    }

    /// The refused address of the server at `url`, if any.
    pub(super) fn find_refused(&self, url: &str) -> Option<String> {
        self.connection.blocked.find_refused(&Url::parse(url).ok()?)
    }

    /// The addresses that the egress proxy did not let through.
    pub(super) fn blocked(&self) -> &Arc<BlockedLog> {
        &self.connection.blocked
    }

    pub(super) fn max_output_bytes(&self) -> usize {
        self.max_output_bytes
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Browser({})", self.worker)
    }
}

impl Extract for Browser {
    type Source = Arc<BrowserPool>;

    fn find(states: &StateMap) -> Result<Arc<BrowserPool>, MissingState> {
        LazyBrowser::find(states)
    }

    fn extract(
        pool: &Arc<BrowserPool>,
        cx: &JobContext,
    ) -> impl Future<Output = Result<Self, Fail>> + Send + use<> {
        let lazy = LazyBrowser::new(pool, cx);
        async move { lazy.acquire().await }
    }
}

//! The extractor of a handler that needs a browser.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use chromiumoxide::Page;
use chromiumoxide::cdp::browser_protocol::browser::BrowserContextId;
use chromiumoxide::cdp::browser_protocol::target::CreateTargetParams;
use chromiumoxide::error::CdpError;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_worker::{Extract, Fail, JobContext, MissingState, StateMap};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::connection::BrowserConnection;
use super::lazy_browser::LazyBrowser;
use super::lease_guard::LeaseGuard;
use super::pool::BrowserPool;

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
    lost: CancellationToken,
    /// The last field, so that the connection closes before the browser is released.
    lease: LeaseGuard,
}

impl Browser {
    pub(super) fn new(
        link: BrowserConnection,
        worker: WorkerKey,
        lost: CancellationToken,
        lease: LeaseGuard,
    ) -> Self {
        Self { connection: link, worker, lost, lease }
    }

    /// Opens a page and waits until it has loaded. Behind the egress proxy, only http and https are
    /// allowed, and a refused address is an error.
    pub async fn page(&self, url: &str) -> Result<Page, CdpError> {
        let scheme = Url::parse(url)?.scheme().to_owned();
        if self.connection.is_proxied() && !matches!(scheme.as_str(), "http" | "https") {
            return Err(CdpError::msg(format!("only http and https are visited, not {scheme}")));
        }
        let page = self.blank().await?;
        page.goto(url).await?;
        let arrived = page.url().await?;
        match arrived.and_then(|url| self.find_refused(&url)) {
            Some(refused) => Err(CdpError::msg(format!("refused: {refused}"))),
            None => Ok(page),
        }
    }

    /// Opens an empty page.
    pub async fn blank(&self) -> Result<Page, CdpError> {
        let mut params = CreateTargetParams::new("about:blank");
        params.browser_context_id = Some(self.connection.context.clone());
        self.connection.cdp.new_page(params).await
    }

    /// The CDP client of the browser. Pages opened with it outside [the job's
    /// context](Self::context) bypass the egress proxy and are not discarded.
    pub fn cdp(&self) -> &chromiumoxide::Browser {
        &self.connection.cdp
    }

    /// The job's browser context.
    pub fn context(&self) -> &BrowserContextId {
        &self.connection.context
    }

    /// The session's id in the fleet.
    pub fn session(&self) -> &SessionId {
        self.lease.session()
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
        self.lost.is_cancelled()
    }

    /// The refused address of the server at `url`, if any.
    pub(super) fn find_refused(&self, url: &str) -> Option<String> {
        self.connection.blocked.find_refused(&Url::parse(url).ok()?)
    }

    pub(super) fn max_output_bytes(&self) -> usize {
        self.lease.max_output_bytes()
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

//! The argument of a handler that wants a browser.

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

use super::desk::Desk;
use super::lender::Lender;
use super::link::Link;
use super::ticket::Ticket;

/// A browser of the fleet, leased for one job.
///
/// It is there when the handler begins, and given back when the handler has ended, however it has: also when it panics,
/// takes too long or is cancelled; when the process dies, the lease runs out. Its pages live in a context of their own, which is
/// thrown away with them, and reach only what [`Browsers`](super::Browsers) allows.
///
/// If no browser is free within [`Browsers::wait`](super::Browsers::wait), the job goes back for a while, and no attempt is
/// counted.
pub struct Browser {
    link: Link,
    member: WorkerKey,
    lost: CancellationToken,
    /// Last, so that the connection is closed before another can have the browser.
    ticket: Ticket,
}

impl Browser {
    pub(super) fn new(link: Link, member: WorkerKey, lost: CancellationToken, ticket: Ticket) -> Self {
        Self { link, member, lost, ticket }
    }

    /// Opens a page and waits until it has loaded. If the browser is guarded, only http and https are opened, and an
    /// address that is refused is an error.
    pub async fn page(&self, url: &str) -> Result<Page, CdpError> {
        let scheme = Url::parse(url)?.scheme().to_owned();
        if self.link.is_guarded() && !matches!(scheme.as_str(), "http" | "https") {
            return Err(CdpError::msg(format!("only http and https are visited, not {scheme}")));
        }
        let page = self.blank().await?;
        page.goto(url).await?;
        let arrived = page.url().await?;
        match arrived.and_then(|url| self.refusal_of(&url)) {
            Some(refused) => Err(CdpError::msg(format!("refused: {refused}"))),
            None => Ok(page),
        }
    }

    /// Opens an empty page.
    pub async fn blank(&self) -> Result<Page, CdpError> {
        let mut params = CreateTargetParams::new("about:blank");
        params.browser_context_id = Some(self.link.context.clone());
        self.link.cdp.new_page(params).await
    }

    /// The browser itself. Pages that are opened with this, and not in [the job's context](Self::context), are
    /// neither guarded nor thrown away.
    pub fn cdp(&self) -> &chromiumoxide::Browser {
        &self.link.cdp
    }

    /// The job's context in it.
    pub fn context(&self) -> &BrowserContextId {
        &self.link.context
    }

    /// The session that this is to the fleet.
    pub fn session(&self) -> &SessionId {
        self.ticket.session()
    }

    /// Which member of the fleet it is.
    pub fn member(&self) -> &WorkerKey {
        &self.member
    }

    /// What its pages wanted to reach and must not, such as `169.254.169.254:80`; the first few.
    pub fn refused(&self) -> Vec<String> {
        self.link.ledger.refused()
    }

    /// What its pages wanted to reach and could not, and why; the first few.
    pub fn unreachable(&self) -> Vec<String> {
        self.link.ledger.failed()
    }

    /// What it would have said of its pages and was too large, such as `Runtime.consoleAPICalled (50000340 bytes)`; the first
    /// few. See [`Browsers::largest_output`](super::Browsers::largest_output).
    pub fn left_out(&self) -> Vec<String> {
        self.link.left_out.list()
    }

    /// Whether it was taken away: somebody closed the session, or it was lost. Everything fails from then on.
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// What was refused of the server at `url`, if anything.
    pub(super) fn refusal_of(&self, url: &str) -> Option<String> {
        self.link.ledger.refusal_of(&Url::parse(url).ok()?)
    }

    pub(super) fn largest_output(&self) -> usize {
        self.ticket.largest_output()
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Browser({})", self.member)
    }
}

impl Extract for Browser {
    type Source = Arc<Desk>;

    fn find(states: &StateMap) -> Result<Arc<Desk>, MissingState> {
        Lender::find(states)
    }

    fn extract(desk: &Arc<Desk>, cx: &JobContext) -> impl Future<Output = Result<Self, Fail>> + Send + use<> {
        let lender = Lender::new(desk, cx);
        async move { lender.browser().await }
    }
}

//! chromiumoxide on a leased browser, for handlers that drive pages with it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use chromiumoxide::cdp::browser_protocol::browser::BrowserContextId;
use chromiumoxide::cdp::browser_protocol::target::CreateTargetParams;
use chromiumoxide::error::CdpError;
use chromiumoxide::handler::{Handler, HandlerConfig};
use futures_util::StreamExt;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::frame_limit::FrameLimit;
use super::relay::{Relay, RelayListener};
use crate::cdp::{BrowserError, COMMAND_TIMEOUT};

/// How long it may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A chromiumoxide browser that is connected to the leased browser, see
/// [`Browser::chromiumoxide`](super::Browser::chromiumoxide).
///
/// Open pages with [`blank`](Self::blank): they are in the job's context, use its egress proxy and are
/// discarded with it. Messages of the browser have the same size limit as those to
/// [`BrowserPage`](super::BrowserPage). The connection ends with the lease, and all calls fail then.
pub struct ChromiumoxideBrowser {
    browser: chromiumoxide::Browser,
    context: BrowserContextId,
    _driver: AbortOnDropHandle<()>,
}

impl ChromiumoxideBrowser {
    /// Opens an empty page in the job's context.
    ///
    /// # Errors
    ///
    /// Any error of chromiumoxide.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the page may stay open until the job ends.
    pub async fn blank(&self) -> Result<chromiumoxide::Page, CdpError> {
        let mut params = CreateTargetParams::new("about:blank");
        params.browser_context_id = Some(self.context.clone());
        self.browser.new_page(params).await
    }

    /// The job's context. Pages outside of it bypass the egress proxy and are not discarded.
    pub fn context(&self) -> &BrowserContextId {
        &self.context
    }
}

impl Deref for ChromiumoxideBrowser {
    type Target = chromiumoxide::Browser;

    fn deref(&self) -> &chromiumoxide::Browser {
        &self.browser
    }
}

impl fmt::Debug for ChromiumoxideBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChromiumoxideBrowser").field(&self.context).finish()
    }
}

/// Connects chromiumoxide to a leased browser. Dropping it ends the connections.
pub(super) struct ChromiumoxideConnector {
    endpoint: String,
    limit: FrameLimit,
    ended: CancellationToken,
}

impl ChromiumoxideConnector {
    pub(super) fn new(endpoint: &str, limit: &FrameLimit, lost: &CancellationToken) -> Self {
        Self { endpoint: endpoint.to_owned(), limit: limit.clone(), ended: lost.child_token() }
    }

    pub(super) async fn connect(&self, context: &str) -> Result<ChromiumoxideBrowser, BrowserError> {
        let timed_out = |_| Err(format!("it did not answer within {CONNECT_TIMEOUT:?}"));
        let connected = timeout(CONNECT_TIMEOUT, self.open(context)).await;
        connected.unwrap_or_else(timed_out).map_err(BrowserError::Connect)
    }

    async fn open(&self, context: &str) -> Result<ChromiumoxideBrowser, String> {
        let context = BrowserContextId::from(context.to_owned());
        let config = HandlerConfig {
            ignore_https_errors: false,
            request_timeout: COMMAND_TIMEOUT,
            viewport: None,
            context_ids: vec![context.clone()],
            ..HandlerConfig::default()
        };
        let listener = RelayListener::open().await.map_err(|error| error.to_string())?;
        let url = listener.endpoint();
        let connect_client = async {
            let connected = chromiumoxide::Browser::connect_with_config(url, config).await;
            connected.map_err(|error| error.to_string())
        };
        // The first error wins, and the relay's error names the cause.
        let (relay, (browser, handler)) = tokio::try_join!(
            biased;
            listener.connect(&self.endpoint, self.limit.clone()),
            connect_client
        )?;
        let ended = self.ended.clone();
        let driver = tokio::spawn(async move {
            ended.run_until_cancelled_owned(drive(handler, relay)).await;
        });
        Ok(ChromiumoxideBrowser { browser, context, _driver: AbortOnDropHandle::new(driver) })
    }
}

impl Drop for ChromiumoxideConnector {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Relays messages between chromiumoxide and the browser until the browser is gone. Each of the two
/// ends with the other.
async fn drive(handler: Handler, relay: Relay) {
    let run_relay = async {
        if let Err(error) = relay.run().await {
            debug!("the relay to a browser failed: {error}");
        }
    };
    tokio::join!(run_handler(handler), run_relay);
}

async fn run_handler(mut handler: Handler) {
    while let Some(event) = handler.next().await {
        if let Err(error) = event {
            debug!("the connection to a browser ended: {error}");
            return;
        }
    }
}

//! The extractor of a handler that acquires browsers on demand.

use std::future::{Future, ready};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tidemill_worker::{Extract, Fail, JobContext, MissingState, StateMap};
use url::Url;

use super::error::PageError;
use super::leased_browser::Browser;
use super::pool::{BrowserPool, LeaseRequester};

/// Acquires browsers for a job on demand: for a handler that may need none, or several.
pub struct LazyBrowser {
    pool: Arc<BrowserPool>,
    cx: JobContext,
}

impl LazyBrowser {
    pub(super) fn new(pool: &Arc<BrowserPool>, cx: &JobContext) -> Self {
        Self { pool: pool.clone(), cx: cx.clone() }
    }

    /// Acquires a browser.
    ///
    /// # Errors
    /// A [`Fail`] that postpones the job without counting an attempt: return it from the handler.
    ///
    /// # Cancel safety
    /// A dropped call releases the browser that it was given.
    pub async fn acquire(&self) -> Result<Browser, Fail> {
        let cx = &self.cx;
        let detail = json!({ "job": cx.id(), "kind": cx.kind(), "queue": cx.queue().name }).to_string();
        let requester = LeaseRequester { holder: cx.worker().clone(), detail: Bytes::from(detail) };
        self.pool.acquire(requester).await.map_err(|error| error.into_fail(cx))
    }

    /// Checks a URL against the egress policy, as far as that is possible without DNS.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), PageError> {
        let browsers = &self.pool.browsers;
        let refused =
            url.host().and_then(|host| browsers.policy.find_refused(&host, url.port_or_known_default()));
        refused.filter(|_| browsers.is_proxied).map_or(Ok(()), |address| Err(PageError::Forbidden(address)))
    }
}

impl Extract for LazyBrowser {
    type Source = Arc<BrowserPool>;

    fn find(states: &StateMap) -> Result<Arc<BrowserPool>, MissingState> {
        let missing =
            || MissingState { argument: "Browser".into(), builder_call: ".browsers(Browsers::new())" };
        states.get().cloned().ok_or_else(missing)
    }

    fn extract(
        pool: &Arc<BrowserPool>,
        cx: &JobContext,
    ) -> impl Future<Output = Result<Self, Fail>> + Send + use<> {
        ready(Ok(Self::new(pool, cx)))
    }
}

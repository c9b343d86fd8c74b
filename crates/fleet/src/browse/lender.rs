//! The argument of a handler that decides itself whether it wants a browser.

use std::future::{Future, ready};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tidemill_worker::{Extract, Fail, JobContext, MissingState, StateMap};
use url::Url;

use super::browser::Browser;
use super::desk::{Desk, Wish};
use super::failure::Failure;

/// Lends browsers to a job: for a handler that may find out first that it needs none, or wants several.
pub struct Lender {
    desk: Arc<Desk>,
    cx: JobContext,
}

impl Lender {
    pub(super) fn new(desk: &Arc<Desk>, cx: &JobContext) -> Self {
        Self { desk: desk.clone(), cx: cx.clone() }
    }

    /// A browser. What this fails with puts the job back for a while, with no attempt counted.
    pub async fn browser(&self) -> Result<Browser, Fail> {
        let cx = &self.cx;
        let detail = json!({ "job": cx.id(), "kind": cx.kind(), "queue": cx.queue().name }).to_string();
        let wish = Wish { holder: cx.worker().clone(), detail: Bytes::from(detail) };
        self.desk.clone().browser(wish).await.map_err(|none| none.into_fail(cx))
    }

    /// Whether a page may be visited, as far as that can be said without asking anybody.
    pub(super) fn check(&self, url: &Url) -> Result<(), Failure> {
        let browsers = &self.desk.browsers;
        let refused = url.host().and_then(|host| browsers.reach.refuses(&host, url.port_or_known_default()));
        refused.filter(|_| browsers.guarded).map_or(Ok(()), |what| Err(Failure::Forbidden(what)))
    }
}

impl Extract for Lender {
    type Source = Arc<Desk>;

    fn find(states: &StateMap) -> Result<Arc<Desk>, MissingState> {
        let missing =
            || MissingState { argument: "Browser".into(), builder_call: ".browsers(Browsers::new())" };
        states.get().cloned().ok_or_else(missing)
    }

    fn extract(desk: &Arc<Desk>, cx: &JobContext) -> impl Future<Output = Result<Self, Fail>> + Send + use<> {
        ready(Ok(Self::new(desk, cx)))
    }
}

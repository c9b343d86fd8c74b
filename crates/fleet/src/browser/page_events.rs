//! The events of a page reduced to what its job must know: the response to the main document, and
//! navigations to refused addresses.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use super::egress::{BlockedLog, REFUSED_HEADER};
use super::navigation::{has_local_scheme, truncate};
use crate::cdp::{CdpEvent, EventSink, FrameNavigated, FrameScheduledNavigation, ResponseReceived};

/// How long the response event may lag behind the load.
const RESPONSE_EVENT_TIMEOUT: Duration = Duration::from_secs(2);

/// The last response to the main document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PageResponse {
    /// The URL after all redirects.
    pub(super) url: String,
    /// Its HTTP status.
    pub(super) status: u16,
    /// Whether it has the egress proxy's refusal header.
    pub(super) has_refused_header: bool,
}

impl PageResponse {
    fn from_event(event: ResponseReceived) -> Self {
        let mut names = event.response.headers.keys();
        Self {
            has_refused_header: names.any(|name| name.eq_ignore_ascii_case(REFUSED_HEADER)),
            status: u16::try_from(event.response.status).unwrap_or_default(),
            url: event.response.url,
        }
    }
}

/// Keeps the facts about one page. Events are reduced to facts as they arrive, so nothing is queued.
pub(super) struct PageEvents {
    main_frame: String,
    blocked: Arc<BlockedLog>,
    facts: watch::Sender<PageFacts>,
}

#[derive(Debug, Default)]
struct PageFacts {
    response: Option<PageResponse>,
    forbidden: Option<ForbiddenNavigation>,
    is_closed: bool,
}

/// A navigation to an address that is refused.
#[derive(Debug, Clone)]
struct ForbiddenNavigation {
    address: String,
    /// A refresh in a minute leaves the job a minute.
    at: Instant,
}

impl PageEvents {
    pub(super) fn new(main_frame: String, blocked: Arc<BlockedLog>) -> Self {
        Self { main_frame, blocked, facts: watch::Sender::new(PageFacts::default()) }
    }

    /// The response to the main document, if its event is here or arrives soon.
    pub(super) async fn response(&self) -> Option<PageResponse> {
        let mut facts = self.facts.subscribe();
        let arrived = facts.wait_for(|facts| facts.response.is_some() || facts.is_closed);
        let _ = timeout(RESPONSE_EVENT_TIMEOUT, arrived).await;
        self.facts.borrow().response.clone()
    }

    /// Completes when the page has navigated to a refused address, and returns that.
    pub(super) async fn wait_for_forbidden(&self) -> String {
        let mut facts = self.facts.subscribe();
        loop {
            let forbidden = facts.borrow_and_update().forbidden.clone();
            let changed = facts.changed();
            let Some(ForbiddenNavigation { address, at }) = forbidden else {
                // It fails only without a sender, and `self` is one.
                let _ = changed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = sleep_until(at) => return address,
                _ = changed => {}
            }
        }
    }

    fn navigated(&self, event: &CdpEvent<'_>) -> Option<ForbiddenNavigation> {
        let FrameNavigated { frame } = event.parse()?;
        let url = frame.unreachable_url.as_ref().unwrap_or(&frame.url);
        let is_page = frame.id == self.main_frame;
        let address = is_page.then(|| self.blocked.find_refused(&Url::parse(url).ok()?))??;
        Some(ForbiddenNavigation { address, at: Instant::now() })
    }

    fn scheduled(&self, event: &CdpEvent<'_>) -> Option<ForbiddenNavigation> {
        let FrameScheduledNavigation { frame_id, delay, url } = event.parse()?;
        let is_forbidden = frame_id == self.main_frame && has_local_scheme(&url);
        let delay = Duration::from_secs_f64(delay.clamp(0.0, 3600.0));
        is_forbidden.then(|| ForbiddenNavigation { address: truncate(&url), at: Instant::now() + delay })
    }

    /// Remembers the earliest.
    fn set_forbidden(&self, forbidden: Option<ForbiddenNavigation>) {
        self.facts.send_if_modified(|facts| {
            let is_earlier =
                |new: &ForbiddenNavigation| facts.forbidden.as_ref().is_none_or(|known| new.at < known.at);
            let earlier = forbidden.filter(is_earlier);
            earlier.map(|earlier| facts.forbidden = Some(earlier)).is_some()
        });
    }
}

impl EventSink for PageEvents {
    fn accept(&self, event: &CdpEvent<'_>) -> bool {
        match event.method {
            ResponseReceived::METHOD => {
                let response = event.parse::<ResponseReceived>().filter(|response| {
                    response.resource == "Document" && response.frame_id.as_ref() == Some(&self.main_frame)
                });
                if let Some(response) = response {
                    self.facts.send_modify(|facts| facts.response = Some(PageResponse::from_event(response)));
                }
            }
            FrameNavigated::METHOD => self.set_forbidden(self.navigated(event)),
            FrameScheduledNavigation::METHOD => self.set_forbidden(self.scheduled(event)),
            _ => {}
        }
        false
    }

    fn close(&self) {
        self.facts.send_modify(|facts| facts.is_closed = true);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn page() -> PageEvents {
        PageEvents::new("main".into(), Arc::default())
    }

    fn accept(page: &PageEvents, method: &str, params: Value) {
        let params = RawValue::from_string(params.to_string()).unwrap();
        assert!(!page.accept(&CdpEvent { method, params: &params }));
    }

    fn respond(page: &PageEvents, kind: &str, frame: &str, url: &str) {
        let response = json!({ "url": url, "status": 200, "statusText": "", "headers": { "A": "b" } });
        let event = json!({ "requestId": "1", "type": kind, "response": response, "frameId": frame });
        accept(page, ResponseReceived::METHOD, event);
    }

    #[tokio::test]
    async fn the_response_is_that_to_the_main_document() {
        let page = page();
        respond(&page, "Document", "main", "http://first/");
        respond(&page, "Document", "main", "http://a/");
        respond(&page, "Document", "frame", "http://b/");
        respond(&page, "Fetch", "main", "data:,x");
        assert_eq!(page.response().await.unwrap().url, "http://a/");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_is_waited_for_for_a_moment() {
        let page = page();
        assert_eq!(page.response().await, None);
        page.close();
        assert_eq!(page.response().now_or_never(), Some(None));
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_forbidden_navigation_counts() {
        let page = page();
        let schedule = |frame: &str, delay: f64, url: &str| {
            let event = json!({ "frameId": frame, "delay": delay, "reason": "x", "url": url });
            accept(&page, FrameScheduledNavigation::METHOD, event);
        };
        schedule("frame", 0.0, "file:///a");
        schedule("main", 0.0, "http://a/");
        schedule("main", 60.0, "file:///late");
        assert!(page.wait_for_forbidden().now_or_never().is_none());
        schedule("main", 10.0, "file:///soon");
        let started = Instant::now();
        assert_eq!(page.wait_for_forbidden().await, "file:///soon");
        assert_eq!(started.elapsed().as_secs(), 10);
    }
}

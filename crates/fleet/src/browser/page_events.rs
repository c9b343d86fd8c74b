//! The events of a page until it is ready, reduced to the few facts that count.
//!
//! A page can cause any number of events before it has loaded, and listener queues are unbounded.
//! So events are consumed at once, and all but the relevant facts are discarded.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use chromiumoxide::Page;
use chromiumoxide::cdp::browser_protocol::network::{EventResponseReceived, LoaderId, ResourceType};
use chromiumoxide::cdp::browser_protocol::page::{EventLifecycleEvent, FrameId};
use chromiumoxide::listeners::EventStream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::timeout;

use super::egress::REFUSED_HEADER;
use super::error::PageError;

/// How long the response event may lag behind the load.
const RESPONSE_EVENT_TIMEOUT: Duration = Duration::from_secs(2);

/// How many idle loaders are remembered: the page may have navigated on.
const MAX_IDLE_LOADERS: usize = 16;

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
    fn from_event(response: &EventResponseReceived) -> Self {
        let headers = response.response.headers.inner().as_object();
        let says_refused = headers
            .is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case(REFUSED_HEADER)));
        Self {
            url: response.response.url.clone(),
            status: u16::try_from(response.response.status).unwrap_or_default(),
            has_refused_header: says_refused,
        }
    }
}

/// The event listeners of one page.
pub(super) struct PageEvents {
    responses: EventStream<EventResponseReceived>,
    lifecycle: EventStream<EventLifecycleEvent>,
    /// The main frame.
    main_frame: Option<FrameId>,
    response: Option<PageResponse>,
    idle_loaders: VecDeque<LoaderId>,
}

impl PageEvents {
    pub(super) async fn open(page: &Page) -> Result<Self, PageError> {
        let (responses, lifecycle) = (page.event_listener().await?, page.event_listener().await?);
        Ok(Self::new(responses, lifecycle, page.mainframe().await?))
    }

    fn new(
        responses: EventStream<EventResponseReceived>,
        lifecycle: EventStream<EventLifecycleEvent>,
        main_frame: Option<FrameId>,
    ) -> Self {
        Self { responses, lifecycle, main_frame, response: None, idle_loaders: VecDeque::new() }
    }

    /// Consumes events. Run it beside everything that takes time.
    pub(super) async fn process_all(&mut self) -> Infallible {
        while self.process_next().await.is_some() {}
        std::future::pending().await
    }

    /// The response to the main document, if its event is here or arrives soon.
    pub(super) async fn response(&mut self) -> Option<PageResponse> {
        let waiting = async { while self.response.is_none() && self.process_next().await.is_some() {} };
        let _ = timeout(RESPONSE_EVENT_TIMEOUT, waiting).await;
        while self.process_next().now_or_never().flatten().is_some() {}
        self.response.clone()
    }

    /// Completes when the page's network is idle; returns false if the browser is gone.
    pub(super) async fn wait_for_network_idle(&mut self, loader: Option<&LoaderId>) -> bool {
        while !self.idle_loaders.iter().any(|idle| loader.is_none_or(|loader| loader == idle)) {
            if self.process_next().await.is_none() {
                return false;
            }
        }
        true
    }

    /// Consumes one event. Cancel safe.
    async fn process_next(&mut self) -> Option<()> {
        tokio::select! {
            Some(response) = self.responses.next() => {
                let is_page = self.main_frame.is_none() || response.frame_id == self.main_frame;
                if response.r#type == ResourceType::Document && is_page {
                    self.response = Some(PageResponse::from_event(&response));
                }
            }
            Some(event) = self.lifecycle.next() => {
                if event.name == "networkIdle" && self.main_frame.as_ref().is_none_or(|main_frame| *main_frame == event.frame_id) {
                    self.idle_loaders.truncate(MAX_IDLE_LOADERS - 1);
                    self.idle_loaders.push_front(event.loader_id.clone());
                }
            }
            else => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chromiumoxide::cdp::Event;
    use serde_json::json;

    use super::*;

    fn event(name: &str, loader: &str) -> Arc<dyn Event> {
        let event = json!({ "frameId": "main", "loaderId": loader, "name": name, "timestamp": 1.0 });
        Arc::new(serde_json::from_value::<EventLifecycleEvent>(event).unwrap())
    }

    fn response(kind: &str, frame: &str, url: &str) -> Arc<dyn Event> {
        let response = json!({
            "url": url, "status": 200, "statusText": "", "headers": {}, "mimeType": "", "charset": "",
            "connectionReused": false, "connectionId": 0, "encodedDataLength": 0, "securityState": "neutral",
        });
        let response = json!({
            "requestId": "1", "loaderId": "1", "timestamp": 1.0, "type": kind, "response": response,
            "hasExtraInfo": false, "frameId": frame,
        });
        Arc::new(serde_json::from_value::<EventResponseReceived>(response).unwrap())
    }

    #[tokio::test]
    async fn what_is_heard_is_forgotten_but_for_what_counts() {
        let (tell, responses) = futures_channel::mpsc::unbounded();
        let (live, lifecycle) = futures_channel::mpsc::unbounded();
        let mut events = PageEvents::new(
            EventStream::new(responses),
            EventStream::new(lifecycle),
            Some("main".to_owned().into()),
        );
        let waiting = [
            response("Document", "main", "http://a/"),
            response("Document", "frame", "http://b/"),
            response("Fetch", "main", "data:,x"),
            event("load", "1"),
            event("networkIdle", "1"),
            event("networkIdle", "2"),
        ];
        waiting[..3].iter().for_each(|event| tell.unbounded_send(event.clone()).unwrap());
        waiting[3..].iter().for_each(|event| live.unbounded_send(event.clone()).unwrap());
        assert!(events.process_all().now_or_never().is_none());
        assert!(waiting.iter().all(|event| Arc::strong_count(event) == 1), "nobody keeps what was told");
        assert_eq!(events.response().await.unwrap().url, "http://a/");
        assert!(events.wait_for_network_idle(Some(&"1".to_owned().into())).await, "it has gone on since");
        drop((tell, live));
        assert!(!events.wait_for_network_idle(Some(&"3".to_owned().into())).await);
    }
}

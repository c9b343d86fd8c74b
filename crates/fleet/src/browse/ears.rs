//! What a page is listened to for until it is ready, and the little of it that is kept.
//!
//! A page can ask for as much as it likes before it has loaded, and nobody bounds what a listener has not heard yet. So it is
//! heard at once, and all but what counts is forgotten.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use chromiumoxide::Page;
use chromiumoxide::cdp::browser_protocol::network::{EventResponseReceived, LoaderId, ResourceType};
use chromiumoxide::cdp::browser_protocol::page::{EventLifecycleEvent, FrameId};
use chromiumoxide::listeners::EventStream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::timeout;

use super::failure::Failure;
use super::guard::REFUSED;

/// How long what the server said may take to be told after the page has loaded.
const TOLD: Duration = Duration::from_secs(2);

/// How many pages that were idle are remembered: a page may have gone on to the next.
const KEPT: usize = 16;

/// What the server said last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Where the visit ended, after all redirects.
    pub(super) url: String,
    /// With which status.
    pub(super) status: u16,
    /// Whether it has the mark of an answer of the proxy's own.
    pub(super) says_refused: bool,
}

impl Arrival {
    fn of(answer: &EventResponseReceived) -> Self {
        let headers = answer.response.headers.inner().as_object();
        let says_refused =
            headers.is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case(REFUSED)));
        Self {
            url: answer.response.url.clone(),
            status: u16::try_from(answer.response.status).unwrap_or_default(),
            says_refused,
        }
    }
}

/// Listens to one page.
pub(super) struct Ears {
    answers: EventStream<EventResponseReceived>,
    lives: EventStream<EventLifecycleEvent>,
    /// The page itself, not a frame in it.
    main: Option<FrameId>,
    arrival: Option<Arrival>,
    idle: VecDeque<LoaderId>,
}

impl Ears {
    pub(super) async fn open(page: &Page) -> Result<Self, Failure> {
        let (answers, lives) = (page.event_listener().await?, page.event_listener().await?);
        Ok(Self::new(answers, lives, page.mainframe().await?))
    }

    fn new(
        answers: EventStream<EventResponseReceived>,
        lives: EventStream<EventLifecycleEvent>,
        main: Option<FrameId>,
    ) -> Self {
        Self { answers, lives, main, arrival: None, idle: VecDeque::new() }
    }

    /// Hears whatever is told. To be run beside everything that takes time.
    pub(super) async fn hear(&mut self) -> Infallible {
        while self.next().await.is_some() {}
        std::future::pending().await
    }

    /// What the server said of the page itself, as far as it is told by now or soon.
    pub(super) async fn arrival(&mut self) -> Option<Arrival> {
        let told = async { while self.arrival.is_none() && self.next().await.is_some() {} };
        let _ = timeout(TOLD, told).await;
        while self.next().now_or_never().flatten().is_some() {}
        self.arrival.clone()
    }

    /// Completes when the page asks nothing of the network any more; false if the browser is gone.
    pub(super) async fn idle(&mut self, loader: Option<&LoaderId>) -> bool {
        while !self.idle.iter().any(|idle| loader.is_none_or(|loader| loader == idle)) {
            if self.next().await.is_none() {
                return false;
            }
        }
        true
    }

    /// Hears one thing. Nothing is lost if it is dropped half-way.
    async fn next(&mut self) -> Option<()> {
        tokio::select! {
            Some(answer) = self.answers.next() => {
                let is_page = self.main.is_none() || answer.frame_id == self.main;
                if answer.r#type == ResourceType::Document && is_page {
                    self.arrival = Some(Arrival::of(&answer));
                }
            }
            Some(life) = self.lives.next() => {
                if life.name == "networkIdle" && self.main.as_ref().is_none_or(|main| *main == life.frame_id) {
                    self.idle.truncate(KEPT - 1);
                    self.idle.push_front(life.loader_id.clone());
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

    fn life(name: &str, loader: &str) -> Arc<dyn Event> {
        let life = json!({ "frameId": "main", "loaderId": loader, "name": name, "timestamp": 1.0 });
        Arc::new(serde_json::from_value::<EventLifecycleEvent>(life).unwrap())
    }

    fn answer(kind: &str, frame: &str, url: &str) -> Arc<dyn Event> {
        let response = json!({
            "url": url, "status": 200, "statusText": "", "headers": {}, "mimeType": "", "charset": "",
            "connectionReused": false, "connectionId": 0, "encodedDataLength": 0, "securityState": "neutral",
        });
        let answer = json!({
            "requestId": "1", "loaderId": "1", "timestamp": 1.0, "type": kind, "response": response,
            "hasExtraInfo": false, "frameId": frame,
        });
        Arc::new(serde_json::from_value::<EventResponseReceived>(answer).unwrap())
    }

    #[tokio::test]
    async fn what_is_heard_is_forgotten_but_for_what_counts() {
        let (tell, answers) = futures_channel::mpsc::unbounded();
        let (live, lives) = futures_channel::mpsc::unbounded();
        let mut ears =
            Ears::new(EventStream::new(answers), EventStream::new(lives), Some("main".to_owned().into()));
        let told = [
            answer("Document", "main", "http://a/"),
            answer("Document", "frame", "http://b/"),
            answer("Fetch", "main", "data:,x"),
            life("load", "1"),
            life("networkIdle", "1"),
            life("networkIdle", "2"),
        ];
        told[..3].iter().for_each(|event| tell.unbounded_send(event.clone()).unwrap());
        told[3..].iter().for_each(|event| live.unbounded_send(event.clone()).unwrap());
        assert!(ears.hear().now_or_never().is_none());
        assert!(told.iter().all(|event| Arc::strong_count(event) == 1), "nobody keeps what was told");
        assert_eq!(ears.arrival().await.unwrap().url, "http://a/");
        assert!(ears.idle(Some(&"1".to_owned().into())).await, "it has gone on since");
        drop((tell, live));
        assert!(!ears.idle(Some(&"3".to_owned().into())).await);
    }
}

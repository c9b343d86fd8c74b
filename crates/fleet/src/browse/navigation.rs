//! Where a page leads by itself after it has loaded: by a meta refresh, by script, by a click of its own.

use std::time::Duration;

use chromiumoxide::cdp::CustomEvent;
use chromiumoxide::cdp::browser_protocol::page::{EventFrameNavigated, FrameId};
use chromiumoxide::listeners::EventStream;
use chromiumoxide::types::MethodId;
use chromiumoxide::{MethodType, Page};
use futures_util::StreamExt;
use serde::Deserialize;

use super::browser::Browser;
use super::failure::Failure;

/// Schemes that lead into the machine of the browser. Chromium blocks them and stays where it is, without an event of the
/// network.
const LOCAL: [&str; 6] =
    ["file:", "filesystem:", "chrome:", "chrome-untrusted:", "devtools:", "view-source:"];

/// Chromium announces every navigation that a page wants, whether it is allowed or not. The generated protocol leaves out
/// this event, because newer ones tell more of those that are allowed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameScheduledNavigation {
    frame_id: FrameId,
    /// In seconds.
    delay: f64,
    url: String,
}

impl MethodType for FrameScheduledNavigation {
    fn method_id() -> MethodId {
        "Page.frameScheduledNavigation".into()
    }
}

impl CustomEvent for FrameScheduledNavigation {}

/// Watches the navigations of one page.
pub(super) struct Navigations {
    scheduled: EventStream<FrameScheduledNavigation>,
    done: EventStream<EventFrameNavigated>,
    /// The page itself, not a frame in it.
    main: Option<FrameId>,
}

impl Navigations {
    pub(super) async fn watch(page: &Page) -> Result<Self, Failure> {
        let (scheduled, done) = (page.event_listener().await?, page.event_listener().await?);
        Ok(Self { scheduled, done, main: page.mainframe().await? })
    }

    /// Completes when the page has led to something that is refused.
    pub(super) async fn forbidden(mut self, browser: &Browser) -> Failure {
        loop {
            tokio::select! {
                Some(scheduled) = self.scheduled.next() => {
                    if self.is_page(&scheduled.frame_id) && is_local(&scheduled.url) {
                        // A refresh in a minute leaves the job a minute.
                        tokio::time::sleep(Duration::from_secs_f64(scheduled.delay.clamp(0.0, 3600.0))).await;
                        return Failure::Forbidden(shown(&scheduled.url));
                    }
                }
                Some(navigated) = self.done.next() => {
                    let frame = &navigated.frame;
                    let url = frame.unreachable_url.as_ref().unwrap_or(&frame.url);
                    if self.is_page(&frame.id) && let Some(refused) = browser.refusal_of(url) {
                        return Failure::Forbidden(refused);
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    fn is_page(&self, frame: &FrameId) -> bool {
        self.main.as_ref().is_none_or(|main| main == frame)
    }
}

fn is_local(url: &str) -> bool {
    let url = url.trim_start().as_bytes();
    LOCAL.iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    })
}

fn shown(url: &str) -> String {
    url.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_into_the_machine_is_told_from_the_web() {
        for url in ["file:///etc/passwd", " FILE:/x", "chrome://version", "view-source:http://a"] {
            assert!(is_local(url), "{url}");
        }
        for url in
            ["http://file:80/", "https://a", "about:blank", "blob:http://a/1", "mailto:a@b", "fil", "é"]
        {
            assert!(!is_local(url), "{url}");
        }
    }
}

//! Navigations that a page makes after it has loaded: by meta refresh, by script, by a click of its
//! own.

use std::time::Duration;

use chromiumoxide::cdp::CustomEvent;
use chromiumoxide::cdp::browser_protocol::page::{EventFrameNavigated, FrameId};
use chromiumoxide::listeners::EventStream;
use chromiumoxide::types::MethodId;
use chromiumoxide::{MethodType, Page};
use futures_util::StreamExt;
use serde::Deserialize;

use super::error::PageError;
use super::leased_browser::Browser;

/// Schemes of the browser's own machine. Chromium blocks such a navigation without a network event.
const LOCAL_SCHEMES: [&str; 6] =
    ["file:", "filesystem:", "chrome:", "chrome-untrusted:", "devtools:", "view-source:"];

/// Chromium sends this event for every navigation that a page requests, allowed or not. The
/// generated protocol omits it, because newer events say more about allowed ones.
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
pub(super) struct NavigationWatcher {
    scheduled: EventStream<FrameScheduledNavigation>,
    navigated: EventStream<EventFrameNavigated>,
    /// The main frame.
    main_frame: Option<FrameId>,
}

impl NavigationWatcher {
    pub(super) async fn new(page: &Page) -> Result<Self, PageError> {
        let (scheduled, navigated) = (page.event_listener().await?, page.event_listener().await?);
        Ok(Self { scheduled, navigated, main_frame: page.mainframe().await? })
    }

    /// Completes when the page has navigated to a refused address.
    pub(super) async fn wait_for_forbidden(mut self, browser: &Browser) -> PageError {
        loop {
            tokio::select! {
                Some(scheduled) = self.scheduled.next() => {
                    if self.is_main_frame(&scheduled.frame_id) && has_local_scheme(&scheduled.url) {
                        // A refresh in a minute leaves the job a minute.
                        tokio::time::sleep(Duration::from_secs_f64(scheduled.delay.clamp(0.0, 3600.0))).await;
                        return PageError::Forbidden(truncate(&scheduled.url));
                    }
                }
                Some(navigated) = self.navigated.next() => {
                    let frame = &navigated.frame;
                    let url = frame.unreachable_url.as_ref().unwrap_or(&frame.url);
                    if self.is_main_frame(&frame.id) && let Some(refused) = browser.find_refused(url) {
                        return PageError::Forbidden(refused);
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    fn is_main_frame(&self, frame: &FrameId) -> bool {
        self.main_frame.as_ref().is_none_or(|main_frame| main_frame == frame)
    }
}

fn has_local_scheme(url: &str) -> bool {
    let url = url.trim_start().as_bytes();
    LOCAL_SCHEMES.iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    })
}

fn truncate(url: &str) -> String {
    url.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_into_the_machine_is_told_from_the_web() {
        for url in ["file:///etc/passwd", " FILE:/x", "chrome://version", "view-source:http://a"] {
            assert!(has_local_scheme(url), "{url}");
        }
        for url in
            ["http://file:80/", "https://a", "about:blank", "blob:http://a/1", "mailto:a@b", "fil", "é"]
        {
            assert!(!has_local_scheme(url), "{url}");
        }
    }
}

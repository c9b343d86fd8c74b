//! The view of a session.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidemill::Timestamp;
use tidemill::fleet::{Offer, SessionId, SessionInfo, WorkerKey};
use tidemill::store::HolderId;

use super::time::{brief_duration, relative};
use super::{Cell, Colour, TextTable, printable};

/// A session, for tables and JSON.
#[derive(Debug, Serialize)]
pub(crate) struct SessionView {
    pub(crate) session: SessionId,
    pub(crate) worker: WorkerKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offer: Option<Offer>,
    pub(crate) state: &'static str,
    pub(crate) held_by: HolderId,
    pub(crate) keep_seconds: f64,
    pub(crate) started_at: Timestamp,
    pub(crate) until: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<Box<RawValue>>,
    #[serde(skip)]
    name: Option<String>,
}

impl SessionView {
    pub(crate) fn new(info: &SessionInfo) -> Self {
        #[derive(Default, Deserialize)]
        struct Detail {
            name: Option<String>,
        }
        let text = std::str::from_utf8(&info.detail).unwrap_or_default().trim();
        Self {
            session: info.session.clone(),
            worker: info.worker.clone(),
            offer: info.offer.clone(),
            state: state(info),
            held_by: info.holder.clone(),
            keep_seconds: info.keep.as_secs_f64(),
            started_at: info.started_at,
            until: info.until,
            detail: RawValue::from_string(text.replace(['\n', '\r'], " ")).ok(),
            name: serde_json::from_str::<Detail>(text).unwrap_or_default().name,
        }
    }

    fn colour(&self) -> Colour {
        match self.state {
            "connected" => Colour::Green,
            "closing" => Colour::Yellow,
            _ => Colour::Blue,
        }
    }
}

fn state(info: &SessionInfo) -> &'static str {
    match (info.closing, info.connected) {
        (true, _) => "closing",
        (_, true) => "connected",
        _ => "kept",
    }
}

/// A table with one session per row.
pub(crate) fn table(views: &[SessionView], now: Timestamp) -> TextTable {
    let mut table = TextTable::new(&["SESSION", "WORKER", "OFFER", "STATE", "AGE", "NAME"]);
    for view in views {
        table.row(vec![
            Cell::text(view.session.as_str()),
            Cell::text(view.worker.to_string()),
            Cell::text(view.offer.as_ref().map_or("", |offer| offer.as_str())),
            Cell::text(view.state).colour(view.colour()),
            Cell::text(brief_duration(view.started_at.until(now))),
            Cell::text(view.name.as_deref().map(printable).unwrap_or_default()),
        ]);
    }
    table
}

/// All facts about one session.
pub(crate) fn facts(view: &SessionView, now: Timestamp) -> TextTable {
    let mut facts = TextTable::facts();
    facts.fact("session", view.session.as_str());
    facts.fact("state", Cell::text(view.state).colour(view.colour()));
    facts.fact("worker", view.worker.to_string());
    if let Some(offer) = &view.offer {
        facts.fact("offer", offer.as_str());
    }
    facts.fact("held by", view.held_by.as_str());
    facts.fact("started", format!("{} ({})", view.started_at, relative(now, view.started_at)));
    facts.fact("until", format!("{} ({})", view.until, relative(now, view.until)));
    if view.keep_seconds > 0.0 {
        facts.fact("keep", format!("{}s", view.keep_seconds));
    }
    if let Some(detail) = &view.detail {
        facts.fact("detail", printable(detail.get()));
    }
    facts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Style;
    use super::*;

    #[test]
    fn sessions_are_shown_with_their_names() {
        let info = SessionInfo {
            session: SessionId::new("5c1f").unwrap(),
            worker: "chromium:a".parse().unwrap(),
            endpoint: "ws://127.0.0.1:9222/".into(),
            offer: Offer::new("cdp").ok(),
            holder: HolderId::new("host:7:0:ab").unwrap(),
            connected: true,
            closing: false,
            keep: Duration::from_secs(60),
            started_at: Timestamp(1_735_689_600_000),
            until: Timestamp(1_735_689_675_000),
            detail: r#"{"name":"log\u001b[2Jin","meta":{"team":"web"}}"#.into(),
        };
        let kept = SessionInfo { connected: false, offer: None, detail: "{}".into(), ..info.clone() };
        let views: Vec<_> = [info, kept].iter().map(SessionView::new).collect();
        let now = Timestamp(1_735_689_660_000);
        insta::assert_snapshot!(table(&views, now).render(&Style::PLAIN));
        insta::assert_snapshot!(facts(&views[0], now).render(&Style::PLAIN));
    }
}

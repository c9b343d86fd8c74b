//! The view of a worker of the fleet.

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::Timestamp;
use tidemill::fleet::{Capacity, Offer, WorkerInfo, WorkerKey, WorkerStatus};

use super::time::relative;
use super::{Cell, Colour, TextTable, printable, thousands};

/// A worker, for tables and JSON.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerView {
    pub(crate) worker: WorkerKey,
    pub(crate) offer: Offer,
    pub(crate) state: &'static str,
    pub(crate) active: u32,
    pub(crate) lifetime: u64,
    pub(crate) room: Capacity,
    pub(crate) last_beat: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<Box<RawValue>>,
}

impl WorkerView {
    pub(crate) fn new(info: &WorkerInfo) -> Self {
        let text = std::str::from_utf8(&info.worker.detail).unwrap_or_default().trim();
        Self {
            worker: info.worker.id.clone(),
            offer: info.worker.offer.clone(),
            state: state(info),
            active: info.active,
            lifetime: info.lifetime,
            room: info.worker.capacity,
            last_beat: info.last_beat,
            endpoint: Some(info.worker.endpoint.clone()).filter(|endpoint| !endpoint.is_empty()),
            detail: RawValue::from_string(text.replace(['\n', '\r'], " ")).ok(),
        }
    }

    fn colour(&self) -> Colour {
        match self.state {
            "available" => Colour::Green,
            "stale" => Colour::Red,
            _ => Colour::Yellow,
        }
    }
}

/// The state to show. A worker without heartbeats is stale, whatever it reported last.
fn state(info: &WorkerInfo) -> &'static str {
    match (info.is_fresh, info.worker.status, info.drain_ordered) {
        (false, ..) => "stale",
        (_, WorkerStatus::Draining, _) => "draining",
        (_, _, true) => "ordered to drain",
        _ => "available",
    }
}

/// A count and its maximum, or the count alone if there is no maximum.
fn ratio(count: u64, of: u32, unlimited: bool) -> String {
    if unlimited { thousands(count) } else { format!("{}/{}", thousands(count), thousands(of.into())) }
}

/// A table with one worker per row.
pub(crate) fn table(views: &[WorkerView], now: Timestamp) -> TextTable {
    let mut table = TextTable::new(&["WORKER", "OFFER", "STATE", "SESSIONS", "LIFETIME", "LAST BEAT"]);
    for view in views {
        table.row(vec![
            Cell::text(view.worker.to_string()),
            Cell::text(view.offer.as_str()),
            Cell::text(view.state).colour(view.colour()),
            Cell::text(ratio(view.active.into(), view.room.concurrent, false)),
            Cell::text(ratio(view.lifetime, view.room.lifetime, view.room.lifetime == 0)),
            Cell::text(relative(now, view.last_beat)),
        ]);
    }
    table
}

/// All facts about one worker.
pub(crate) fn facts(view: &WorkerView, now: Timestamp) -> TextTable {
    let mut facts = TextTable::facts();
    facts.fact("worker", view.worker.to_string());
    facts.fact("state", Cell::text(view.state).colour(view.colour()));
    facts.fact("offer", view.offer.as_str());
    facts.fact("sessions", ratio(view.active.into(), view.room.concurrent, false));
    facts.fact("lifetime", ratio(view.lifetime, view.room.lifetime, view.room.lifetime == 0));
    facts.fact("last beat", format!("{} ({})", view.last_beat, relative(now, view.last_beat)));
    if let Some(endpoint) = &view.endpoint {
        facts.fact("endpoint", printable(endpoint));
    }
    if let Some(detail) = &view.detail {
        facts.fact("detail", printable(detail.get()));
    }
    facts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidemill::fleet::WorkerEntry;

    use super::super::Style;
    use super::*;

    fn info(id: &str, offer: &str, capacity: Capacity) -> WorkerInfo {
        let member = WorkerEntry {
            id: id.parse().unwrap(),
            offer: Offer::new(offer).unwrap(),
            endpoint: "ws://127.0.0.1:9222/devtools/browser/a".into(),
            status: WorkerStatus::Available,
            capacity,
            beat_timeout: Duration::from_secs(15),
            detail: r#"{"host":"a"}"#.into(),
        };
        let last_beat = Timestamp(1_735_689_600_000);
        WorkerInfo {
            worker: member,
            last_beat,
            is_fresh: true,
            drain_ordered: false,
            active: 1,
            lifetime: 12,
        }
    }

    #[test]
    fn workers_are_shown_with_what_they_have_and_may_have() {
        let browser = info("chromium:a", "cdp", Capacity { concurrent: 1, lifetime: 1 });
        let server = info("chromium:b", "playwright-1.64", Capacity { concurrent: 5, lifetime: 50 });
        let old = info("firefox:c", "bidi", Capacity { concurrent: 2, lifetime: 0 });
        let all =
            [browser, WorkerInfo { drain_ordered: true, ..server }, WorkerInfo { is_fresh: false, ..old }];
        let views: Vec<_> = all.iter().map(WorkerView::new).collect();
        let now = Timestamp(1_735_689_603_000);
        insta::assert_snapshot!(table(&views, now).render(&Style::PLAIN));
        insta::assert_snapshot!(facts(&views[1], now).render(&Style::PLAIN));
    }
}

//! The view of a run.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::store::runs::RunInfo;
use tidemill::workflow::{Json, RunId, RunStatus, Topic, Version, WorkflowName};
use tidemill::{QueueName, Timestamp};

use super::timeline::format_span;
use super::{Cell, Colour, TextTable, printable, time::relative};

/// A run, for tables and JSON.
#[derive(Debug, Serialize)]
pub(crate) struct RunView {
    run: RunId,
    workflow: WorkflowName,
    version: Version,
    status: RunStatus,
    queue: QueueName,
    started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<Timestamp>,
    entries: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<RunId>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<Topic, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_timer: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl RunView {
    pub(crate) fn new(info: &RunInfo) -> Self {
        let output = std::str::from_utf8(&info.output).ok().filter(|text| !text.is_empty());
        Self {
            run: info.run.clone(),
            workflow: info.workflow.clone(),
            version: info.version.clone(),
            status: info.status,
            queue: info.queue.name.clone(),
            started_at: info.started_at,
            closed_at: info.closed_at,
            entries: info.length,
            key: info.key.clone(),
            parent: info.parent.as_ref().map(|parent| parent.run.clone()),
            attributes: info.attributes.clone(),
            next_timer: info.next_timer,
            output: output.and_then(|text| RawValue::from_string(text.to_owned()).ok()),
            error: info.error.clone(),
        }
    }

    fn state(&self) -> Cell {
        let colour = match self.status {
            RunStatus::Running => Colour::Yellow,
            RunStatus::Completed => Colour::Green,
            RunStatus::Failed | RunStatus::Terminated => Colour::Red,
            RunStatus::Cancelled => Colour::Dim,
        };
        Cell::text(self.status.as_str()).colour(colour)
    }

    fn duration(&self, now: Timestamp) -> String {
        format_span(self.started_at.until(self.closed_at.unwrap_or(now)))
    }
}

/// A table with one run per row.
pub(crate) fn table(views: &[RunView], now: Timestamp) -> TextTable {
    let mut table = TextTable::new(&["RUN", "WORKFLOW", "VERSION", "STATUS", "STARTED", "TOOK", "RESULT"]);
    for view in views {
        let result = view.error.as_deref().or(view.output.as_deref().map(RawValue::get)).unwrap_or_default();
        table.row(vec![
            Cell::text(view.run.as_str()),
            Cell::text(view.workflow.as_str()),
            Cell::text(view.version.as_str()),
            view.state(),
            Cell::text(relative(now, view.started_at)),
            Cell::text(view.duration(now)),
            Cell::text(printable(result)),
        ]);
    }
    table
}

/// All facts about one run except its journal.
pub(crate) fn facts(view: &RunView, now: Timestamp) -> TextTable {
    let mut facts = TextTable::facts();
    facts.fact("run", view.run.as_str());
    facts.fact("workflow", format!("{} {}", view.workflow, view.version));
    facts.fact("status", view.state());
    facts.fact("queue", view.queue.as_str());
    facts.fact("started", format!("{} ({})", view.started_at, relative(now, view.started_at)));
    match view.closed_at {
        Some(closed) => facts.fact("ended", format!("{closed}, after {}", view.duration(now))),
        None => facts.fact("open for", view.duration(now)),
    }
    facts.fact("entries", Cell::text(view.entries.to_string()));
    if let Some(key) = &view.key {
        facts.fact("key", printable(key));
    }
    if let Some(parent) = &view.parent {
        facts.fact("parent", parent.as_str());
    }
    for (name, value) in &view.attributes {
        facts.fact(name.as_str(), printable(value.as_str()));
    }
    if let Some(next) = view.next_timer {
        facts.fact("next timer", relative(now, next));
    }
    if let Some(output) = &view.output {
        facts.fact("output", printable(output.get()));
    }
    if let Some(error) = &view.error {
        facts.fact("error", printable(error));
    }
    facts
}

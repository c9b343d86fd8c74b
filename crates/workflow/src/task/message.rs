//! Messages: the message of a run's task, and the delivery of events to runs.

use serde::Deserialize;
use tidemill_core::store::runs::{Delivered, Delivery, EntryKind, StoredEntry};
use tidemill_core::workflow::{
    CommitId, Entry, EntryContent, PositionedEvent, RunEvent, RunId, Version, WorkflowName,
};
use tidemill_core::{Envelope, Error, Store};

/// The content of a task's message.
#[derive(Debug)]
pub(crate) struct TaskMessage {
    pub(crate) workflow: WorkflowName,
    pub(crate) version: Version,
    /// The position up to which events were consumed. None in a message of another program, which
    /// requests a start.
    pub(crate) cursor: Option<u64>,
    /// The new events. Empty if one of them is unreadable: replaying the journal then reports
    /// which.
    pub(crate) events: Vec<PositionedEvent>,
    pub(crate) key: Option<String>,
    /// The run's last commit; none before the first.
    pub(crate) last_commit: Option<CommitId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskFields {
    workflow_name: WorkflowName,
    version: Version,
    cursor: Option<u64>,
    idempotency_key: Option<String>,
    last_commit: Option<CommitId>,
}

#[derive(Deserialize)]
struct NewEvents {
    #[serde(default)]
    news: Vec<NewEvent>,
}

#[derive(Deserialize)]
struct NewEvent {
    position: u64,
    entry: Entry,
}

impl TaskMessage {
    pub(crate) fn read(envelope: &Envelope) -> serde_json::Result<Self> {
        let fields: TaskFields = serde_json::from_slice(envelope.bytes())?;
        let NewEvents { news } =
            serde_json::from_slice(envelope.bytes()).unwrap_or(NewEvents { news: Vec::new() });
        let events = news.into_iter().filter_map(|NewEvent { position, entry }| match entry.content {
            EntryContent::Event(event) => Some(PositionedEvent { position, at: entry.at, event }),
            EntryContent::Commit(_) => None,
        });
        let TaskFields { workflow_name: workflow, version, cursor, idempotency_key: key, last_commit } =
            fields;
        Ok(Self { workflow, version, cursor, events: events.collect(), key, last_commit })
    }
}

/// Delivers one event to a run. With an id, repeated calls deliver it once.
pub(crate) async fn deliver(
    store: &dyn Store,
    run: &RunId,
    event: RunEvent,
    id: Option<String>,
) -> Result<Delivered, Error> {
    let (kind, seq) = entry_kind(&event);
    let stored = StoredEntry { kind, bytes: Entry::event(store.clock().now(), event).write() };
    let delivery = Delivery { run: run.clone(), entry: stored, id, seq };
    let delivered = store.deliver(std::slice::from_ref(&delivery)).await?;
    Ok(delivered.first().copied().unwrap_or(Delivered::NotFound))
}

/// The kind of an event for the store, and the number of the command it answers.
pub(crate) fn entry_kind(event: &RunEvent) -> (EntryKind, Option<u64>) {
    match event {
        RunEvent::Signal(_) | RunEvent::Update { .. } | RunEvent::CancelRequested { .. } => {
            (EntryKind::Message, None)
        }
        RunEvent::Started(_) => (EntryKind::CommandResult, None),
        RunEvent::ActivityDone { seq, .. }
        | RunEvent::TimerFired { seq }
        | RunEvent::ChildStarted { seq, .. }
        | RunEvent::ChildDone { seq, .. }
        | RunEvent::SignalSent { seq, .. } => (EntryKind::CommandResult, Some(*seq)),
    }
}

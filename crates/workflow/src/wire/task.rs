//! The message of a run's task, read.

use serde::Deserialize;
use tidemill_core::Envelope;
use tidemill_core::workflow::{CommitId, Entry, EntryContent, PositionedEvent, Version, WorkflowName};

/// What a task says.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) workflow: WorkflowName,
    pub(crate) version: Version,
    /// How far the run has come; none in a message of another program's, which wants it to begin.
    pub(crate) cursor: Option<u64>,
    /// What is new since. Empty if one of them is damaged: whoever reads the journal finds out which.
    pub(crate) news: Vec<PositionedEvent>,
    pub(crate) key: Option<String>,
    /// The commit by which the run came there; none before the first.
    pub(crate) last_commit: Option<CommitId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    workflow_name: WorkflowName,
    version: Version,
    cursor: Option<u64>,
    idempotency_key: Option<String>,
    last_commit: Option<CommitId>,
}

#[derive(Deserialize)]
struct News {
    #[serde(default)]
    news: Vec<New>,
}

#[derive(Deserialize)]
struct New {
    position: u64,
    entry: Entry,
}

impl Task {
    pub(crate) fn read(envelope: &Envelope) -> serde_json::Result<Self> {
        let facts: Facts = serde_json::from_slice(envelope.bytes())?;
        let News { news } = serde_json::from_slice(envelope.bytes()).unwrap_or(News { news: Vec::new() });
        let news = news.into_iter().filter_map(|New { position, entry }| match entry.what {
            EntryContent::Event(event) => Some(PositionedEvent { position, at: entry.at, event }),
            EntryContent::Commit(_) => None,
        });
        let Facts { workflow_name: workflow, version, cursor, idempotency_key: key, last_commit } = facts;
        Ok(Self { workflow, version, cursor, news: news.collect(), key, last_commit })
    }
}

//! The journal: entries in the order in which they happened. Positions count from 1.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::command::Command;
use super::event::{RunEvent, StoredSignal};
use super::json::Json;
use super::name::RunId;
use crate::clock::Timestamp;
use crate::store::Error;

/// Bytes that are no entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a journal entry: {0}")]
pub struct DamagedEntry(String);

impl From<DamagedEntry> for Error {
    fn from(error: DamagedEntry) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// One entry of a journal. On the wire `{"at":…,"event":{…}}` or `{"at":…,"commit":{…}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it was appended, by the store's clock.
    pub at: Timestamp,
    /// What it says.
    pub content: EntryContent,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// Something came in.
    Event(RunEvent),
    /// A task ran.
    Commit(Commit),
}

/// What a task did. Committing is a compare-and-set on how far the run had come before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The position of the last event it consumed; 0 if there is none.
    pub upto: u64,
    /// What it asked for, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// How the run ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
}

/// How a run ends by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// With this result.
    Completed(Json),
    /// With an error.
    Failed {
        /// What went wrong.
        message: String,
    },
    /// Because it was asked to.
    Cancelled,
    /// It begins again with an empty journal.
    ContinuedAsNew {
        /// What it is given.
        input: Json,
        /// The number of the last command.
        seq: u64,
        /// The signals it has got and not yet received. The store adds those that arrived since.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        signals: Vec<StoredSignal>,
        /// The updates it has got and not yet received.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<StoredSignal>,
    },
}

/// An event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionedEvent {
    /// Its position.
    pub position: u64,
    /// When it came, by the store's clock.
    pub at: Timestamp,
    /// What came.
    pub event: RunEvent,
}

/// A whole journal, as it is exported and kept as a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Whose it is.
    pub run: RunId,
    /// The position before its first entry: not 0 if the run has continued as new.
    #[serde(default, skip_serializing_if = "super::event::is_zero")]
    pub base: u64,
    /// From there on.
    pub entries: Vec<Entry>,
}

impl Entry {
    /// An entry that says that something came in.
    pub fn event(at: Timestamp, event: RunEvent) -> Self {
        Self { at, content: EntryContent::Event(event) }
    }

    /// An entry that says what a task did.
    pub fn commit(at: Timestamp, commit: Commit) -> Self {
        Self { at, content: EntryContent::Commit(commit) }
    }

    /// Reads an entry.
    pub fn read(bytes: &[u8]) -> Result<Self, DamagedEntry> {
        serde_json::from_slice(bytes).map_err(|error| DamagedEntry(error.to_string()))
    }

    /// Writes the entry. Reading it back and writing it again gives the same bytes.
    pub fn write(&self) -> Bytes {
        // Everything in an entry is text, numbers, or JSON already: it always serialises.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The two shapes of an entry. A tag beside the content would make serde buffer it, and raw JSON cannot be.
#[derive(Deserialize)]
struct WireEntry {
    at: i64,
    event: Option<RunEvent>,
    commit: Option<Commit>,
}

#[derive(Serialize)]
struct WireEntryRef<'a> {
    at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RunEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a Commit>,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (event, commit) = match &self.content {
            EntryContent::Event(event) => (Some(event), None),
            EntryContent::Commit(commit) => (None, Some(commit)),
        };
        WireEntryRef { at: self.at.0, event, commit }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let WireEntry { at, event, commit } = WireEntry::deserialize(from)?;
        let what = match (event, commit) {
            (Some(event), None) => EntryContent::Event(event),
            (None, Some(commit)) => EntryContent::Commit(commit),
            _ => return Err(serde::de::Error::custom("an entry has either an event or a commit")),
        };
        Ok(Self { at: Timestamp(at), content: what })
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(_) => f.write_str("completed"),
            Self::Failed { message } => write!(f, "failed: {message}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::ContinuedAsNew { .. } => f.write_str("continued as new"),
        }
    }
}

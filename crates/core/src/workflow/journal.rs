//! The journal: the entries of a run in order. Positions count from 1.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::command::Command;
use super::event::{RunEvent, StoredSignal};
use super::json::Json;
use super::name::{RunId, Topic};
use crate::clock::Timestamp;
use crate::store::Error;

/// The error for bytes that are not a journal entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a journal entry: {0}")]
pub struct DamagedEntry(String);

impl From<DamagedEntry> for Error {
    fn from(error: DamagedEntry) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// A journal entry. Stored as `{"at":…,"event":{…}}` or `{"at":…,"commit":{…}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it was appended, by the store's clock.
    pub at: Timestamp,
    /// Its content.
    pub content: EntryContent,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// An event that the run received.
    Event(RunEvent),
    /// A task's commit.
    Commit(Commit),
}

/// The result of a task. Committing is a compare-and-set on the run's position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The position of the last event it consumed; 0 if there is none.
    pub upto: u64,
    /// The commands it issued, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// How the run ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
    /// The messages that the code waits for after it, sorted; at most
    /// [`MAX_AWAITED_MESSAGES`](Self::MAX_AWAITED_MESSAGES). For people who look at the run: replay
    /// does not compare them. Empty in commits of builds that did not record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<AwaitedMessage>,
}

impl Commit {
    /// How many awaited messages a commit records.
    pub const MAX_AWAITED_MESSAGES: usize = 32;
}

/// A message that the code of a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitedMessage {
    /// A signal with this name.
    Signal(Topic),
    /// An update with this name.
    Update(Topic),
}

impl fmt::Display for AwaitedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(name) => write!(f, "signal `{name}`"),
            Self::Update(name) => write!(f, "update `{name}`"),
        }
    }
}

/// How a run ends by its own code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// With this output.
    Completed(Json),
    /// With an error.
    Failed {
        /// The error message.
        message: String,
    },
    /// After a cancellation request.
    Cancelled,
    /// By continuing as new, with an empty journal.
    ContinuedAsNew {
        /// The new input.
        input: Json,
        /// The number of the last command.
        seq: u64,
        /// Signals that arrived and that the code has not received. The store adds those that
        /// arrived since.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        signals: Vec<StoredSignal>,
        /// Updates that arrived and that the code has not received.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<StoredSignal>,
    },
}

/// An event with its position in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionedEvent {
    /// Its position.
    pub position: u64,
    /// When it was appended, by the store's clock.
    pub at: Timestamp,
    /// The event.
    pub event: RunEvent,
}

/// A whole journal, as it is exported and stored in tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The run.
    pub run: RunId,
    /// The position before the first entry: not 0 if the run has continued as new.
    #[serde(default, skip_serializing_if = "super::event::is_zero")]
    pub base: u64,
    /// The entries.
    pub entries: Vec<Entry>,
}

impl Entry {
    /// Creates an entry with an event.
    pub fn event(at: Timestamp, event: RunEvent) -> Self {
        Self { at, content: EntryContent::Event(event) }
    }

    /// Creates an entry with a commit.
    pub fn commit(at: Timestamp, commit: Commit) -> Self {
        Self { at, content: EntryContent::Commit(commit) }
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// [`DamagedEntry`] if the bytes are not an entry.
    pub fn read(bytes: &[u8]) -> Result<Self, DamagedEntry> {
        serde_json::from_slice(bytes).map_err(|error| DamagedEntry(error.to_string()))
    }

    /// Serialises the entry. Reading and serialising it again gives the same bytes.
    pub fn write(&self) -> Bytes {
        // Strings, numbers and JSON text always serialise.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The two forms of an entry. With an internal tag serde would buffer the content, which raw JSON
/// does not support.
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

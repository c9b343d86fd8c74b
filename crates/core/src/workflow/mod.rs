//! Types of durable workflows: names, and the journal that defines the state of a run.
//!
//! A run's journal is one append-only list. It contains the received events ([`RunEvent`]) and one
//! [`Commit`] for each task: the events it consumed and the [`Command`]s it issued. Applying the
//! events again, in the order in which the commits consumed them, rebuilds the run. Stores and
//! tools pass these values on; only the workflow engine interprets them.

mod command;
mod commit_id;
mod event;
mod journal;
mod json;
mod name;
mod open;
mod requester;
mod retry;
mod status;

pub use command::{Command, NotifyParent, ParentClose, ScheduleActivity, StartChild};
pub use commit_id::CommitId;
pub use event::{
    ActivityFailure, ActivityResult, ChildResult, DEFAULT_MAX_JOURNAL_ENTRIES, FailureKind, Parent, RunEvent,
    RunStarted, SignalDelivery, StoredSignal, Timeout, UpdateResult,
};
pub use journal::{
    AwaitedMessage, Commit, DamagedEntry, Entry, EntryContent, Journal, PositionedEvent, RunEnd,
};
pub use json::Json;
pub use name::{Route, RunId, Topic, Version, WORKFLOW_QUEUE, WorkflowName};
pub use open::{OpenChild, OpenChildren, OpenCommand, OpenCommands, awaited_messages, open_commands};
pub use requester::Requester;
pub(crate) use requester::{cancelled, done, failed};
pub use retry::RetryPolicy;
pub use status::{RunStatus, UnknownRunStatus};

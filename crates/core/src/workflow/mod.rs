//! The vocabulary of durable workflows: the names of runs, and the journal that is the truth about each.
//!
//! A run's journal is one append-only list. It holds what came in ([`Event`]) and, for every task that ran, one
//! [`Commit`]: which events it consumed and the [`Command`]s it issued. Feeding the events again, in the order in
//! which the commits consumed them, rebuilds the run. Stores and tools carry these values; only the workflow
//! engine gives them a meaning.

mod command;
mod commit_id;
mod event;
mod journal;
mod json;
mod name;
mod open;
mod retry;
mod status;
mod tell;

pub use command::{Command, ParentClose, ScheduleActivity, StartChild, Told};
pub use commit_id::CommitId;
pub use event::{
    ActivityEnd, ActivityFailure, ChildEnd, Event, FailureKind, JOURNAL_LIMIT, Parent, Sent, Started,
    StoredSignal, Timeout, UpdateEnd,
};
pub use journal::{Arrived, Commit, Damaged, End, Entry, Journal, What};
pub use json::Json;
pub use name::{Route, RunId, Topic, Version, WORKFLOW_QUEUE, WorkflowName};
pub use open::{Child, Children, Open, OpenCommands, open_commands};
pub use retry::Retry;
pub use status::{Status, UnknownStatus};
pub use tell::Asker;
pub(crate) use tell::{cancelled, done, failed};

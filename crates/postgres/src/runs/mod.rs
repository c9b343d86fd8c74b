//! The workflow verbs: a run is a row and a journal, and its tasks and activities are jobs.

mod batch;
mod deliver;
mod effects;
mod inspect;
mod settle;
mod start;
mod terminate;
mod upkeep;

use tidemill_core::Error;
use tidemill_core::store::runs::{ConflictPolicy, Delivery, EntryKind};
use tidemill_core::workflow::RunStatus;
use tokio_postgres::types::{ToSql, Type};

pub(crate) use batch::Act;

/// How the kind of an entry is stored.
fn kind_code(kind: EntryKind) -> i16 {
    match kind {
        EntryKind::Commit => 0,
        EntryKind::CommandResult => 1,
        EntryKind::Message => 2,
    }
}

/// The kind that is stored like this.
fn kind_of(code: i16) -> Result<EntryKind, Error> {
    match code {
        0 => Ok(EntryKind::Commit),
        1 => Ok(EntryKind::CommandResult),
        2 => Ok(EntryKind::Message),
        other => Err(Error::Corrupt(format!("an entry of a journal has the kind {other}"))),
    }
}

/// How a status is stored.
fn status_code(status: RunStatus) -> i16 {
    match status {
        RunStatus::Running => 0,
        RunStatus::Completed => 1,
        RunStatus::Failed => 2,
        RunStatus::Cancelled => 3,
        RunStatus::Terminated => 4,
    }
}

/// The status that is stored like this.
fn status_of(code: i16) -> Result<RunStatus, Error> {
    let found = RunStatus::ALL.into_iter().find(|status| status_code(*status) == code);
    found.ok_or_else(|| Error::Corrupt(format!("a run has the status {code}")))
}

/// How what to do about a key is said.
fn conflict_code(conflict: ConflictPolicy) -> i16 {
    match conflict {
        ConflictPolicy::UseExisting => 0,
        ConflictPolicy::Reject => 1,
        ConflictPolicy::StartAfterClose => 2,
    }
}

/// A number of the contract's as the database has it.
fn big(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of the database's as the contract has it.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// An event for one run, as functions take it.
pub(crate) struct Telling<'a> {
    pub(crate) run: &'a str,
    pub(crate) kind: i16,
    pub(crate) entry: &'a [u8],
    pub(crate) id: Option<&'a [u8]>,
    pub(crate) seq: Option<i64>,
}

impl<'a> Telling<'a> {
    pub(crate) fn of(delivery: &'a Delivery) -> Self {
        Self {
            run: delivery.run.as_str(),
            kind: kind_code(delivery.entry.kind),
            entry: &delivery.entry.bytes,
            id: delivery.id.as_deref().map(str::as_bytes),
            seq: delivery.seq.map(big),
        }
    }

    /// Parameters of `deliver_job` and `complete_by_delivering`.
    pub(crate) fn params(&self) -> [(&(dyn ToSql + Sync), Type); 5] {
        [
            (&self.run, Type::TEXT),
            (&self.kind, Type::INT2),
            (&self.entry, Type::BYTEA),
            (&self.id, Type::BYTEA),
            (&self.seq, Type::INT8),
        ]
    }
}

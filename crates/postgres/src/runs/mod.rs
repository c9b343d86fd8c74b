//! The workflow verbs: a run is a row and a journal, and its tasks and activities are jobs.

mod batch;
mod deliver;
mod effects;
mod find_run;
mod get_run;
mod list_runs;
mod prune_runs;
mod read_journal;
mod rows;
mod settle_runs;
mod start_run;
mod terminate;

use async_trait::async_trait;
use tidemill_core::Error;
use tidemill_core::store::runs::{
    ConflictPolicy, Delivered, Delivery, EntryKind, ListRunsParams, PruneRunsParams, ReadJournalParams,
    RunInfo, Runs, StartRunParams, StartRunResult, StoredEntry, TerminateParams,
};
use tidemill_core::store::{Page, Verdict};
use tidemill_core::workflow::{RunId, RunStatus, WorkflowName};
use tokio_postgres::types::{ToSql, Type};

use crate::store::PostgresStore;
pub(crate) use batch::RunChange;

#[async_trait]
impl Runs for PostgresStore {
    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        self.announced(self.inner.start_run(run).await)
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        self.announced(self.inner.deliver(deliveries).await)
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        self.announced(self.inner.terminate(terminate).await)
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        self.inner.read_journal(read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        self.inner.get_run(run).await
    }

    async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error> {
        self.inner.find_run(workflow, key).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.inner.list_runs(list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        self.inner.prune_runs(prune).await
    }
}

/// How the kind of an entry is stored.
fn kind_code(kind: EntryKind) -> i16 {
    match kind {
        EntryKind::Commit => 0,
        EntryKind::CommandResult => 1,
        EntryKind::Message => 2,
    }
}

/// The kind with this code.
fn kind_from_code(code: i16) -> Result<EntryKind, Error> {
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

/// The status with this code.
fn status_from_code(code: i16) -> Result<RunStatus, Error> {
    let found = RunStatus::ALL.into_iter().find(|status| status_code(*status) == code);
    found.ok_or_else(|| Error::Corrupt(format!("a run has the status {code}")))
}

/// The code of a conflict policy.
fn conflict_code(conflict: ConflictPolicy) -> i16 {
    match conflict {
        ConflictPolicy::UseExisting => 0,
        ConflictPolicy::Reject => 1,
        ConflictPolicy::StartAfterClose => 2,
    }
}

/// Converts a number of the contract for the database.
fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number of the database for the contract.
fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// An event for one run, as functions take it.
pub(crate) struct EventArgs<'a> {
    pub(crate) run: &'a str,
    pub(crate) kind: i16,
    pub(crate) entry: &'a [u8],
    pub(crate) id: Option<&'a [u8]>,
    pub(crate) seq: Option<i64>,
}

impl<'a> EventArgs<'a> {
    pub(crate) fn new(delivery: &'a Delivery) -> Self {
        Self {
            run: delivery.run.as_str(),
            kind: kind_code(delivery.entry.kind),
            entry: &delivery.entry.bytes,
            id: delivery.id.as_deref().map(str::as_bytes),
            seq: delivery.seq.map(to_i64),
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

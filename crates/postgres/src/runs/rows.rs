//! The rows of runs, commits and events, as functions take them. `migrations/0005_row_types.sql`
//! documents the columns.

use postgres_types::ToSql;
use tidemill_core::store::runs::{
    AfterCommit, CloseRun, CommitParams, Delivery, StartRunParams, TerminateParams,
};

use super::{EventArgs, status_code, to_i64};
use crate::jobs::ms;

/// The code of a commit that ends its run.
const ENDS_RUN: i16 = 2;

/// A run to start.
#[derive(Debug, ToSql)]
#[postgres(name = "run_row")]
pub(super) struct NewRunRow<'a> {
    id: &'a str,
    workflow: &'a str,
    version: &'a str,
    queue: i32,
    cursor: i64,
    head: &'a [u8],
    opening: &'a [u8],
    key: Option<&'a str>,
    parent: Option<&'a str>,
    parent_seq: Option<i64>,
    keep: i64,
}

impl<'a> NewRunRow<'a> {
    pub(super) fn new(run: &'a StartRunParams, queue: i32) -> Self {
        Self {
            id: run.run.as_str(),
            workflow: run.workflow.as_str(),
            version: run.version.as_str(),
            queue,
            cursor: to_i64(run.cursor),
            head: &run.task_head,
            opening: &run.first_task_fields,
            key: run.key.as_ref().map(|key| key.key.as_str()),
            parent: run.parent.as_ref().map(|parent| parent.run.as_str()),
            parent_seq: run.parent.as_ref().map(|parent| to_i64(parent.seq)),
            keep: ms(run.keep),
        }
    }
}

/// A commit of a task, or the end of a run from outside.
#[derive(Debug, Default, ToSql)]
#[postgres(name = "commit_row")]
pub(super) struct CommitRow<'a> {
    /// From 1.
    pub(super) number: i32,
    pub(super) claim: i32,
    pub(super) phase: i32,
    pub(super) run: &'a str,
    pub(super) id: Option<i64>,
    pub(super) cursor: i64,
    pub(super) upto: i64,
    pub(super) entry: Option<&'a [u8]>,
    pub(super) next: i16,
    pub(super) result: &'a [u8],
    pub(super) status: i16,
    pub(super) error: Option<&'a [u8]>,
    pub(super) memory: Option<i64>,
}

impl<'a> CommitRow<'a> {
    /// The row of a commit. The caller sets its number, claim and phase.
    pub(super) fn new(commit: &'a CommitParams) -> Self {
        let own = Self {
            run: commit.run.as_str(),
            id: Some(to_i64(commit.id.number())),
            cursor: to_i64(commit.cursor),
            upto: to_i64(commit.upto),
            entry: Some(&commit.entry),
            ..Self::default()
        };
        match &commit.then {
            AfterCommit::Running => own,
            AfterCommit::ContinueAsNew(restart) => {
                Self { next: 1, result: &restart.first, memory: Some(ms(restart.id_retention)), ..own }
            }
            AfterCommit::Close(close) => own.close(close),
        }
    }

    /// The end of a run from outside: a commit without an id and an entry.
    pub(super) fn terminating(terminate: &TerminateParams<'a>) -> Self {
        let cursor = to_i64(terminate.cursor);
        let own = Self { number: 1, run: terminate.run.as_str(), cursor, upto: cursor, ..Self::default() };
        own.close(terminate.close)
    }

    fn close(self, close: &'a CloseRun) -> Self {
        Self {
            next: ENDS_RUN,
            result: &close.output,
            status: status_code(close.status),
            error: close.error.as_deref().map(str::as_bytes),
            ..self
        }
    }

    pub(super) fn ends_run(&self) -> bool {
        self.next == ENDS_RUN
    }
}

/// An event for a run.
#[derive(Debug, ToSql)]
#[postgres(name = "event_row")]
pub(super) struct EventRow<'a> {
    pub(super) claim: i32,
    /// The number of the commit that it belongs to.
    pub(super) commit: Option<i32>,
    pub(super) phase: i32,
    pub(super) run: &'a str,
    pub(super) kind: i16,
    pub(super) entry: &'a [u8],
    pub(super) id: Option<&'a [u8]>,
    pub(super) seq: Option<i64>,
}

impl<'a> EventRow<'a> {
    /// The row of a delivery. The caller sets its claim, commit and phase.
    pub(super) fn new(delivery: &'a Delivery) -> Self {
        let EventArgs { run, kind, entry, id, seq } = EventArgs::new(delivery);
        Self { claim: 0, commit: None, phase: 0, run, kind, entry, id, seq }
    }
}

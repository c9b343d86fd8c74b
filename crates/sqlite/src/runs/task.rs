//! Tasks: a run that has news has one, however many news there are.

use std::collections::BTreeSet;

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::runs::{RunPosition, task_envelope};
use tidemill_core::workflow::RunId;

use super::journal::news;
use crate::call::Tx;
use crate::error::Failure;
use crate::jobs::{Line, arrive};
use crate::row;

/// Runs that may need a task, by their numbers. They get it when everything else of a call is done, so that one task has
/// the news of all of it.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    runs: BTreeSet<i64>,
}

impl Wanted {
    /// The run with this number may need a task.
    pub(super) fn add(&mut self, run: i64) {
        self.runs.insert(run);
    }

    /// Makes the tasks that are needed.
    pub(crate) fn make(self, tx: &mut Tx<'_>) -> Result<(), Failure> {
        self.runs.into_iter().try_for_each(|run| make_if_needed(tx, run))
    }
}

/// An open run without a task.
struct Idle {
    run: RunId,
    line: i64,
    queue: Queue,
    at: RunPosition,
    head: Bytes,
}

fn make_if_needed(tx: &mut Tx<'_>, run: i64) -> Result<(), Failure> {
    let Some(Idle { run: id, line, queue, at, head }) = idle(tx, run)? else { return Ok(()) };
    let news = news(tx, run, at.cursor)?;
    if news.is_empty() {
        return Ok(());
    }
    let envelope =
        task_envelope(&head, b"", at, news.iter().map(|(position, entry)| (*position, &entry[..])));
    make(tx, &Line { queue: &queue, number: line }, &id.task(), &envelope)
}

fn idle(tx: &Tx<'_>, run: i64) -> Result<Option<Idle>, Failure> {
    let mut idle = tx.connection.prepare_cached(include_str!("../../sql/runs/idle.sql"))?;
    let mut rows = idle.query([run])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let run = RunId::new(row.get_ref(0)?.as_str()?)?;
    let (line, queue) = (row.get(1)?, row::queue(row, 2)?);
    let at = RunPosition { cursor: row::count(row, 4)?, last_commit: row::commit_id(row, 6)? };
    Ok(Some(Idle { run, line, queue, at, head: row::body(row, 5)? }))
}

/// Puts a task in line, unless it is there.
pub(super) fn make(tx: &mut Tx<'_>, line: &Line<'_>, id: &JobId, envelope: &Bytes) -> Result<(), Failure> {
    let mut add = tx.connection.prepare_cached(include_str!("../../sql/jobs/enqueue.sql"))?;
    let none = None::<&str>;
    if add.execute(params![id.as_str(), 0, line.number, tx.now.0, none, none, &envelope[..]])? == 0 {
        return Ok(());
    }
    let seq = tx.connection.last_insert_rowid();
    arrive(tx, line, tx.now, seq)
}

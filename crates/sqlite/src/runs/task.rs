//! Tasks: a run with unconsumed events has exactly one, however many events there are.

use std::collections::BTreeSet;

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::runs::{RunPosition, task_envelope};
use tidemill_core::workflow::RunId;

use super::journal::unconsumed_events;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::jobs::insert_and_announce;
use crate::queues::NumberedQueue;
use crate::row;

/// An open run without a task, so without a job that has the task's id, whatever its state.
const FIND_IDLE_RUN: &str = "
    SELECT r.id, r.queue, q.name, q.delivery, r.cursor, r.head, r.last_commit
    FROM tidemill_runs r CROSS JOIN tidemill_queues q ON q.id = r.queue
    WHERE r.number = ?1 AND r.status = 'running' AND NOT EXISTS (SELECT 1 FROM tidemill_jobs j
        WHERE j.id = r.id || '!task')";

/// The numbers of runs that may need a task. The tasks are created after everything else of a
/// request, so that one task carries all new events.
#[derive(Debug, Default)]
pub(crate) struct PendingTasks {
    runs: BTreeSet<i64>,
}

impl PendingTasks {
    /// Notes that the run with this number may need a task.
    pub(super) fn add(&mut self, run: i64) {
        self.runs.insert(run);
    }

    /// Creates the tasks that are needed.
    pub(crate) fn create(self, tx: &mut Tx<'_>) -> Result<(), RequestError> {
        self.runs.into_iter().try_for_each(|run| create_if_needed(tx, run))
    }
}

/// An open run without a task.
struct IdleRun {
    run: RunId,
    queue_number: i64,
    queue: Queue,
    at: RunPosition,
    head: Bytes,
}

fn create_if_needed(tx: &mut Tx<'_>, run: i64) -> Result<(), RequestError> {
    let Some(IdleRun { run: id, queue_number, queue, at, head }) = find_idle(tx, run)? else { return Ok(()) };
    let events = unconsumed_events(tx, run, at.cursor)?;
    if events.is_empty() {
        return Ok(());
    }
    let envelope =
        task_envelope(&head, b"", at, events.iter().map(|(position, entry)| (*position, &entry[..])));
    create(tx, &NumberedQueue { queue: &queue, number: queue_number }, &id.task(), &envelope)
}

fn find_idle(tx: &Tx<'_>, run: i64) -> Result<Option<IdleRun>, RequestError> {
    let mut find = tx.connection.prepare_cached(FIND_IDLE_RUN)?;
    let mut rows = find.query([run])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let run = RunId::new(row.get_ref(0)?.as_str()?)?;
    let (queue_number, queue) = (row.get(1)?, row::queue(row, 2)?);
    let at = RunPosition { cursor: row::count(row, 4)?, last_commit: row::commit_id(row, 6)? };
    Ok(Some(IdleRun { run, queue_number, queue, at, head: row::body(row, 5)? }))
}

/// Enqueues a task, unless it exists.
pub(super) fn create(
    tx: &mut Tx<'_>,
    target: &NumberedQueue<'_>,
    id: &JobId,
    envelope: &Bytes,
) -> Result<(), RequestError> {
    let mut insert = tx.connection.prepare_cached(sql!("jobs/enqueue"))?;
    let none = None::<&str>;
    if insert.execute(params![id.as_str(), 0, target.number, tx.now.0, none, none, &envelope[..]])? == 0 {
        return Ok(());
    }
    let seq = tx.connection.last_insert_rowid();
    insert_and_announce(tx, target, tx.now, seq)
}

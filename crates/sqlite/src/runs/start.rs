//! Starting runs.

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tidemill_core::clock::millis;
use tidemill_core::store::runs::{
    ConflictPolicy, EntryKind, RunKey, RunPosition, StartRunParams, StartRunResult, StoredEntry,
    task_envelope, with_timestamp,
};
use tidemill_core::workflow::{RunId, WorkflowName};
use tidemill_core::{Error, Timestamp};

use super::instance::find;
use super::{effects, journal, prune};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::jobs::{Line, find_or_add_queue};
use crate::store::SqliteStore;

pub(crate) async fn start(store: &SqliteStore, run: &StartRunParams) -> Result<StartRunResult, Error> {
    let run = run.clone();
    let rows = 4 + run.journal.len() + run.effects.len() + run.attributes.len();
    store.write(Cost::growth(rows), move |tx| start_one(tx, &run)).await
}

fn start_one(tx: &mut Tx<'_>, run: &StartRunParams) -> Result<StartRunResult, Failure> {
    if is_there(tx, &run.run)?.is_some() {
        return Ok(StartRunResult::Existing(run.run.clone()));
    }
    if let Some(key) = &run.key
        && let Some(started) = conflict(tx, &run.workflow, key)?
    {
        return Ok(started);
    }
    create(tx, &StartRunParams { journal: stamped_behind(run, tx.now), ..run.clone() })?;
    Ok(StartRunResult::Created)
}

/// Whether a run is open.
struct IsOpen(bool);

/// Whether there is a run with this id. One that is kept no longer makes way.
fn is_there(tx: &Tx<'_>, run: &RunId) -> Result<Option<IsOpen>, Failure> {
    let Some(found) = find(tx, run)? else { return Ok(None) };
    if found.is_over(tx.now) {
        prune::remove(tx, found.number)?;
        return Ok(None);
    }
    Ok(Some(IsOpen(!found.status.is_closed())))
}

/// What stands against starting a run with this key.
fn conflict(tx: &Tx<'_>, workflow: &WorkflowName, key: &RunKey) -> Result<Option<StartRunResult>, Failure> {
    let mut keyed = tx.connection.prepare_cached(include_str!("../../sql/runs/keyed.sql"))?;
    let holder = keyed.query_row(params![workflow.as_str(), key.key], |row| row.get::<_, String>(0));
    let Some(holder) = holder.optional()?.map(|id| RunId::new(&id)).transpose()? else { return Ok(None) };
    let Some(IsOpen(open)) = is_there(tx, &holder)? else { return Ok(None) };
    Ok(match key.conflict {
        ConflictPolicy::Reject => Some(StartRunResult::Rejected(holder)),
        ConflictPolicy::StartAfterClose if !open => None,
        ConflictPolicy::UseExisting | ConflictPolicy::StartAfterClose => {
            Some(StartRunResult::Existing(holder))
        }
    })
}

/// Its journal, with this time in the events that are new.
fn stamped_behind(run: &StartRunParams, now: Timestamp) -> Vec<StoredEntry> {
    let stamp = |(position, written): (u64, &StoredEntry)| {
        let is_new = position > run.cursor && written.kind != EntryKind::Commit;
        let entry = if is_new { with_timestamp(&written.bytes, now) } else { written.bytes.clone() };
        StoredEntry { kind: written.kind, bytes: entry }
    };
    (1..).zip(&run.journal).map(stamp).collect()
}

fn create(tx: &mut Tx<'_>, run: &StartRunParams) -> Result<(), Failure> {
    let line = Line { queue: &run.queue, number: find_or_add_queue(tx.connection, &run.queue)?.number };
    let number = add(tx, run, line.number)?;
    for (position, written) in (1..).zip(&run.journal) {
        journal::append(tx, number, position, written)?;
    }
    if let Some(RunKey { key, .. }) = &run.key {
        let mut hold = tx.connection.prepare_cached(include_str!("../../sql/runs/hold_key.sql"))?;
        hold.execute(params![run.workflow.as_str(), key, number])?;
    }
    effects::describe(tx, number, &run.attributes)?;
    effects::apply(tx, number, &run.effects)?;
    super::task::make(tx, &line, &run.run.task(), &first_task(run))
}

fn add(tx: &Tx<'_>, run: &StartRunParams, queue: i64) -> Result<i64, Failure> {
    let mut start = tx.connection.prepare_cached(include_str!("../../sql/runs/start.sql"))?;
    start.execute(params![
        run.run.as_str(),
        run.workflow.as_str(),
        run.version.as_str(),
        queue,
        tx.now.0,
        millis(run.keep),
        run.cursor.cast_signed(),
        run.journal.len() as i64,
        run.key.as_ref().map(|key| &key.key),
        run.parent.as_ref().map(|parent| parent.run.as_str()),
        run.parent.as_ref().map(|parent| parent.seq.cast_signed()),
        &run.task_head[..],
    ])?;
    Ok(tx.connection.last_insert_rowid())
}

fn first_task(run: &StartRunParams) -> Bytes {
    let events = (1..).zip(&run.journal).filter(|(_, written)| written.kind != EntryKind::Commit);
    let news = events.filter(|(position, _)| *position > run.cursor);
    let at = RunPosition { cursor: run.cursor, last_commit: None };
    task_envelope(
        &run.task_head,
        &run.first_task_fields,
        at,
        news.map(|(position, written)| (position, &written.bytes[..])),
    )
}

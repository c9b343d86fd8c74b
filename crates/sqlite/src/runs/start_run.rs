//! `start_run`: starts runs.

use bytes::Bytes;
use rusqlite::{named_params, params};
use tidemill_core::clock::millis;
use tidemill_core::store::runs::{
    ConflictPolicy, EntryKind, RunKey, RunPosition, StartRunParams, StartRunResult, StoredEntry,
    task_envelope, with_timestamp,
};
use tidemill_core::workflow::{RunId, WorkflowName};
use tidemill_core::{Error, Timestamp};

use super::find_run::run_with_key;
use super::run_row::find;
use super::{effects, journal, prune_runs};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::queues::{NumberedQueue, queue_row};
use crate::store::SqliteStore;

/// Assigns a key to a run.
const SET_RUN_KEY: &str = "INSERT OR REPLACE INTO tidemill_run_keys (workflow, key, run) VALUES (?1, ?2, ?3)";

pub(crate) async fn start_run(store: &SqliteStore, run: &StartRunParams) -> Result<StartRunResult, Error> {
    let run = run.clone();
    let rows = 4 + run.journal.len() + run.effects.len() + run.attributes.len();
    store.write(Cost::growth(rows), move |tx| start_one(tx, &run)).await
}

fn start_one(tx: &mut Tx<'_>, run: &StartRunParams) -> Result<StartRunResult, RequestError> {
    if find_unexpired(tx, &run.run)?.is_some() {
        return Ok(StartRunResult::Existing(run.run.clone()));
    }
    if let Some(key) = &run.key
        && let Some(result) = conflict(tx, &run.workflow, key)?
    {
        return Ok(result);
    }
    create(tx, &StartRunParams { journal: stamp_new_events(run, tx.now), ..run.clone() })?;
    Ok(StartRunResult::Created)
}

/// Whether a run is open.
struct IsOpen(bool);

/// Looks up a run by its id. An expired run is deleted and counts as missing.
fn find_unexpired(tx: &Tx<'_>, run: &RunId) -> Result<Option<IsOpen>, RequestError> {
    let Some(found) = find(tx, run)? else { return Ok(None) };
    if found.is_expired(tx.now) {
        prune_runs::delete_run(tx, found.number)?;
        return Ok(None);
    }
    Ok(Some(IsOpen(!found.status.is_closed())))
}

/// The result if another run has this key, depending on the conflict policy.
fn conflict(
    tx: &Tx<'_>,
    workflow: &WorkflowName,
    key: &RunKey,
) -> Result<Option<StartRunResult>, RequestError> {
    let Some(holder) = run_with_key(tx, workflow, &key.key)? else { return Ok(None) };
    let Some(IsOpen(open)) = find_unexpired(tx, &holder)? else { return Ok(None) };
    Ok(match key.conflict {
        ConflictPolicy::Reject => Some(StartRunResult::Rejected(holder)),
        ConflictPolicy::StartAfterClose if !open => None,
        ConflictPolicy::UseExisting | ConflictPolicy::StartAfterClose => {
            Some(StartRunResult::Existing(holder))
        }
    })
}

/// The journal of the new run, with the current time in its unconsumed events.
fn stamp_new_events(run: &StartRunParams, now: Timestamp) -> Vec<StoredEntry> {
    let stamp = |(position, written): (u64, &StoredEntry)| {
        let is_new = position > run.cursor && written.kind != EntryKind::Commit;
        let entry = if is_new { with_timestamp(&written.bytes, now) } else { written.bytes.clone() };
        StoredEntry { kind: written.kind, bytes: entry }
    };
    (1..).zip(&run.journal).map(stamp).collect()
}

fn create(tx: &mut Tx<'_>, run: &StartRunParams) -> Result<(), RequestError> {
    let target = NumberedQueue {
        queue: &run.queue,
        number: queue_row::find_or_insert(tx.connection, &run.queue)?.number,
    };
    let number = insert(tx, run, target.number)?;
    for (position, written) in (1..).zip(&run.journal) {
        journal::append(tx, number, position, written)?;
    }
    if let Some(RunKey { key, .. }) = &run.key {
        let mut set_key = tx.connection.prepare_cached(SET_RUN_KEY)?;
        set_key.execute(params![run.workflow.as_str(), key, number])?;
    }
    effects::set_attributes(tx, number, &run.attributes)?;
    effects::apply(tx, number, &run.effects)?;
    super::task::create(tx, &target, &run.run.task(), &first_task(run))
}

fn insert(tx: &Tx<'_>, run: &StartRunParams, queue: i64) -> Result<i64, RequestError> {
    let mut start = tx.connection.prepare_cached(sql!("runs/start_run"))?;
    start.execute(named_params! {
        ":id": run.run.as_str(),
        ":workflow": run.workflow.as_str(),
        ":version": run.version.as_str(),
        ":queue": queue,
        ":started": tx.now.0,
        ":keep": millis(run.keep),
        ":cursor": run.cursor.cast_signed(),
        ":length": run.journal.len() as i64,
        ":key": run.key.as_ref().map(|key| &key.key),
        ":parent": run.parent.as_ref().map(|parent| parent.run.as_str()),
        ":parent_seq": run.parent.as_ref().map(|parent| parent.seq.cast_signed()),
        ":head": &run.task_head[..],
    })?;
    Ok(tx.connection.last_insert_rowid())
}

fn first_task(run: &StartRunParams) -> Bytes {
    let events = (1..).zip(&run.journal).filter(|(_, written)| written.kind != EntryKind::Commit);
    let unconsumed = events.filter(|(position, _)| *position > run.cursor);
    let at = RunPosition { cursor: run.cursor, last_commit: None };
    task_envelope(
        &run.task_head,
        &run.first_task_fields,
        at,
        unconsumed.map(|(position, written)| (position, &written.bytes[..])),
    )
}

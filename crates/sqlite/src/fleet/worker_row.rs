//! The rows of workers: inserts, deletes and the count of their sessions.

use rusqlite::{named_params, params};
use tidemill_core::Timestamp;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{ORDER_TIMEOUT, WorkerEntry};
use tidemill_core::wake::Wake;

use super::row::status_text;
use super::{first, run};
use crate::connection::Tx;
use crate::error::RequestError;

/// Deletes the sessions of a worker.
const DELETE_SESSIONS_OF_WORKER: &str = "DELETE FROM tidemill_sessions WHERE member = ?1";

/// A session on a worker has ended, so the worker is not full. A worker that has had all its
/// sessions is ordered to drain.
const FREE_SLOT: &str = "
    UPDATE tidemill_members
    SET full_until = 0, ordered_until = iif(most > 0 AND lifetime >= most, ?2, ordered_until)
    WHERE id = ?1";

/// Resets the full mark of a worker if one of its sessions now ends earlier than the mark.
const RESET_FULL_UNTIL: &str = "UPDATE tidemill_members SET full_until = 0 WHERE id = ?1 AND full_until > ?2";

/// Whether a worker has a slot for one more session, whatever its lifetime.
const HAS_FREE_SLOT: &str = "
    SELECT (SELECT count(*) FROM tidemill_sessions WHERE member = ?1 AND until > ?2) < concurrent
    FROM tidemill_members WHERE id = ?1";

/// Counts one more session in the lifetime of a worker. Returns whether that was its last.
const COUNT_SESSION_IN_LIFETIME: &str = "
    UPDATE tidemill_members SET lifetime = lifetime + 1 WHERE id = ?1
    RETURNING most > 0 AND lifetime >= most";

pub(super) fn insert(
    tx: &mut Tx<'_>,
    worker: &WorkerEntry,
    grace_until: Timestamp,
) -> Result<(), RequestError> {
    write_entry(tx, sql!("fleet/join"), worker, grace_until)?;
    tx.wakes.add(Wake::Capacity(worker.id.kind.clone()));
    Ok(())
}

/// Runs `join` or `beat` with the entry of a worker. Returns how many rows it wrote.
pub(super) fn write_entry(
    tx: &Tx<'_>,
    sql: &str,
    worker: &WorkerEntry,
    grace_until: Timestamp,
) -> Result<usize, RequestError> {
    let WorkerEntry { id, offer, endpoint, status, capacity, beat_timeout, detail } = worker;
    let entry = named_params! {
        ":id": id.to_string(),
        ":kind": id.kind.as_str(),
        ":offer": offer.as_str(),
        ":endpoint": endpoint,
        ":status": status_text(*status),
        ":concurrent": capacity.concurrent,
        ":most": capacity.lifetime,
        ":fresh": millis(*beat_timeout),
        ":detail": &detail[..],
        ":now": tx.now.0,
        ":stale_at": tx.now.after(*beat_timeout).0,
        ":grace_until": grace_until.0,
    };
    run(tx, sql, entry)
}

/// Deletes a worker with its sessions. Returns how many sessions it had.
pub(super) fn delete(tx: &Tx<'_>, worker: &WorkerKey) -> Result<usize, RequestError> {
    let id = worker.to_string();
    let sessions = run(tx, DELETE_SESSIONS_OF_WORKER, [&id])?;
    run(tx, sql!("fleet/part"), [&id])?;
    Ok(sessions)
}

/// Frees the slot of an ended session. A worker that has had all its sessions is ordered to drain.
pub(super) fn free_slot(tx: &Tx<'_>, worker: &WorkerKey) -> Result<(), RequestError> {
    run(tx, FREE_SLOT, params![worker.to_string(), tx.now.after(ORDER_TIMEOUT).0])?;
    Ok(())
}

/// Resets the full mark of a worker if a session on it now ends at `until`, before the mark.
pub(super) fn recheck_capacity(
    tx: &Tx<'_>,
    worker: &WorkerKey,
    until: Timestamp,
) -> Result<(), RequestError> {
    run(tx, RESET_FULL_UNTIL, params![worker.to_string(), until.0])?;
    Ok(())
}

/// Whether a worker exists and has no free slot. A worker that has not joined yet is not full.
pub(super) fn is_full(tx: &Tx<'_>, worker: &WorkerKey) -> Result<bool, RequestError> {
    let has_slot = HAS_FREE_SLOT;
    let has_slot = first(tx, has_slot, params![worker.to_string(), tx.now.0], |row| Ok(row.get(0)?))?;
    Ok(has_slot == Some(false))
}

/// Counts one more session in the lifetime of a worker, if it exists. If that was its last, its
/// owner is woken to replace it.
pub(super) fn count_session(tx: &mut Tx<'_>, worker: &WorkerKey) -> Result<(), RequestError> {
    let is_spent = first(tx, COUNT_SESSION_IN_LIFETIME, [worker.to_string()], |row| Ok(row.get(0)?))?;
    if is_spent == Some(true) {
        tx.wakes.add(Wake::Worker(worker.clone()));
    }
    Ok(())
}

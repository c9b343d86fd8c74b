//! `deliver`: appends events to the journals of runs.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::name::JobId;
use tidemill_core::store::runs::{
    Delivered, Delivery, EntryKind, MAX_REMEMBERED_DELIVERIES, removal_delivery,
};

use super::alarms;
use super::run_row::{RunRow, find};
use super::task::PendingTasks;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

/// Whether an event with this id was delivered before.
const DELIVERY_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM tidemill_run_seen WHERE run = ?1 AND id = ?2)";

/// Stores the id of a delivered event.
const INSERT_DELIVERY: &str = "INSERT INTO tidemill_run_seen (run, id, at) VALUES (?1, ?2, ?3)";

/// Whether a run has delivery ids older than a time. Checked before the more expensive delete.
const OLD_DELIVERIES_EXIST: &str =
    "SELECT EXISTS (SELECT 1 FROM tidemill_run_seen WHERE run = ?1 AND at < ?2)";

/// Deletes the delivery ids older than a time, except the latest ?3.
const DELETE_OLD_DELIVERIES: &str = "
    DELETE FROM tidemill_run_seen
    WHERE run = ?1 AND at < ?2 AND (at, id) <= (
        SELECT at, id FROM tidemill_run_seen WHERE run = ?1 ORDER BY at DESC, id DESC
        LIMIT 1 OFFSET ?3)";

pub(crate) async fn deliver(store: &SqliteStore, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
    if deliveries.is_empty() {
        return Ok(Vec::new());
    }
    if deliveries.iter().any(|delivery| delivery.entry.kind == EntryKind::Commit) {
        return Err(Error::Invalid("a commit is made by a task, and not delivered".into()));
    }
    let deliveries = deliveries.to_vec();
    let rows = 2 * deliveries.len();
    store.write(Cost::growth(rows), move |tx| deliver_all(tx, &deliveries)).await
}

fn deliver_all(tx: &mut Tx<'_>, deliveries: &[Delivery]) -> Result<Vec<Delivered>, RequestError> {
    let mut tasks = PendingTasks::default();
    let results =
        deliveries.iter().map(|delivery| deliver_one(tx, delivery, &mut tasks)).collect::<Result<_, _>>()?;
    tasks.create(tx)?;
    Ok(results)
}

/// Delivers an event to one run. The run's task is created from `tasks`.
pub(crate) fn deliver_one(
    tx: &Tx<'_>,
    delivery: &Delivery,
    tasks: &mut PendingTasks,
) -> Result<Delivered, RequestError> {
    let Some(mut run) = find(tx, &delivery.run)? else { return Ok(Delivered::NotFound) };
    if is_delivered(tx, &run, delivery)? {
        return Ok(Delivered::Duplicate);
    }
    if run.status.is_closed() {
        return Ok(Delivered::Closed(run.status));
    }
    insert_delivery(tx, &run, delivery)?;
    run.append(tx, &delivery.entry)?;
    run.save(tx)?;
    if let Some(seq) = delivery.seq {
        alarms::drop_one(tx, run.number, seq)?;
    }
    tasks.add(run.number);
    Ok(Delivered::Yes)
}

/// Notifies the run that waits for a job, if any, that the job was removed.
pub(crate) fn notify_removed(
    tx: &Tx<'_>,
    job: &JobId,
    envelope: &Bytes,
    tasks: &mut PendingTasks,
) -> Result<(), RequestError> {
    // Only the envelope of a run's job needs to be parsed.
    let delivery = job.run().and_then(|_| removal_delivery(envelope.clone(), tx.now));
    delivery.map_or(Ok(()), |delivery| deliver_one(tx, &delivery, tasks).map(drop))
}

fn is_delivered(tx: &Tx<'_>, run: &RunRow, delivery: &Delivery) -> Result<bool, RequestError> {
    let Some(id) = &delivery.id else { return Ok(false) };
    let mut exists = tx.connection.prepare_cached(DELIVERY_EXISTS)?;
    Ok(exists.query_row(params![run.number, id], |row| row.get(0))?)
}

fn insert_delivery(tx: &Tx<'_>, run: &RunRow, delivery: &Delivery) -> Result<(), RequestError> {
    let Some(id) = &delivery.id else { return Ok(()) };
    let mut insert = tx.connection.prepare_cached(INSERT_DELIVERY)?;
    insert.execute(params![run.number, id, tx.now.0])?;
    Ok(())
}

/// Deletes the ids of deliveries that are older than `seen_for`, except the latest ones.
pub(super) fn delete_old_deliveries(tx: &Tx<'_>, run: i64, seen_for: Duration) -> Result<(), RequestError> {
    let before = tx.now.0.saturating_sub(millis(seen_for));
    let mut exists = tx.connection.prepare_cached(OLD_DELIVERIES_EXIST)?;
    if exists.query_row([run, before], |row| row.get(0))? {
        let mut delete = tx.connection.prepare_cached(DELETE_OLD_DELIVERIES)?;
        delete.execute([run, before, MAX_REMEMBERED_DELIVERIES as i64])?;
    }
    Ok(())
}

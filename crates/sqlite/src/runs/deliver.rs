//! Telling runs what happened.

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
use super::instance::{Instance, find};
use super::task::Wanted;
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

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

fn deliver_all(tx: &mut Tx<'_>, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Failure> {
    let mut wanted = Wanted::default();
    let answers =
        deliveries.iter().map(|delivery| deliver_one(tx, delivery, &mut wanted)).collect::<Result<_, _>>()?;
    wanted.make(tx)?;
    Ok(answers)
}

/// Tells one run. Its task is made when the caller says so.
pub(crate) fn deliver_one(
    tx: &Tx<'_>,
    delivery: &Delivery,
    wanted: &mut Wanted,
) -> Result<Delivered, Failure> {
    let Some(mut run) = find(tx, &delivery.run)? else { return Ok(Delivered::NotFound) };
    if is_seen(tx, &run, delivery)? {
        return Ok(Delivered::Duplicate);
    }
    if run.status.is_closed() {
        return Ok(Delivered::Closed(run.status));
    }
    see(tx, &run, delivery)?;
    run.append(tx, &delivery.entry)?;
    run.save(tx)?;
    if let Some(seq) = delivery.seq {
        alarms::drop_one(tx, run.number, seq)?;
    }
    wanted.add(run.number);
    Ok(Delivered::Yes)
}

/// Tells the run that waits for a job, if one does, that the job was taken away.
pub(crate) fn tell_of_removed(
    tx: &Tx<'_>,
    job: &JobId,
    envelope: &Bytes,
    wanted: &mut Wanted,
) -> Result<(), Failure> {
    // Only what belongs to a run is worth reading.
    let told = job.run().and_then(|_| removal_delivery(envelope.clone(), tx.now));
    told.map_or(Ok(()), |told| deliver_one(tx, &told, wanted).map(drop))
}

fn is_seen(tx: &Tx<'_>, run: &Instance, delivery: &Delivery) -> Result<bool, Failure> {
    let Some(id) = &delivery.id else { return Ok(false) };
    let mut seen = tx.connection.prepare_cached(include_str!("../../sql/runs/seen.sql"))?;
    Ok(seen.query_row(params![run.number, id], |row| row.get(0))?)
}

fn see(tx: &Tx<'_>, run: &Instance, delivery: &Delivery) -> Result<(), Failure> {
    let Some(id) = &delivery.id else { return Ok(()) };
    let mut see = tx.connection.prepare_cached(include_str!("../../sql/runs/see.sql"))?;
    see.execute(params![run.number, id, tx.now.0])?;
    Ok(())
}

/// Forgets what was delivered longer ago than this, but for the latest.
pub(super) fn forget(tx: &Tx<'_>, run: i64, seen_for: Duration) -> Result<(), Failure> {
    let before = tx.now.0.saturating_sub(millis(seen_for));
    let mut look = tx.connection.prepare_cached(include_str!("../../sql/runs/has_old_seen.sql"))?;
    if look.query_row([run, before], |row| row.get(0))? {
        let mut forget = tx.connection.prepare_cached(include_str!("../../sql/runs/forget_old_seen.sql"))?;
        forget.execute([run, before, MAX_REMEMBERED_DELIVERIES as i64])?;
    }
    Ok(())
}

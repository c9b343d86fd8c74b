//! Telling runs what happened.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::store::runs::{Delivered, Delivery, EntryKind};

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
    if deliveries.iter().any(|delivery| delivery.written.kind == EntryKind::Commit) {
        return Err(Error::Invalid("a commit is made by a task, and not delivered".into()));
    }
    let deliveries = deliveries.to_vec();
    let rows = 2 * deliveries.len();
    store.write(Cost::Growth(rows), move |tx| deliver_all(tx, &deliveries)).await
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
        return Ok(Delivered::Again);
    }
    if run.status.is_closed() {
        return Ok(Delivered::Closed(run.status));
    }
    see(tx, &run, delivery)?;
    run.append(tx, &delivery.written)?;
    run.save(tx)?;
    if let Some(seq) = delivery.seq {
        alarms::drop_one(tx, run.number, seq)?;
    }
    wanted.add(run.number);
    Ok(Delivered::Yes)
}

fn is_seen(tx: &Tx<'_>, run: &Instance, delivery: &Delivery) -> Result<bool, Failure> {
    let Some(id) = &delivery.id else { return Ok(false) };
    let mut seen = tx.connection.prepare_cached(include_str!("../../sql/runs/seen.sql"))?;
    Ok(seen.query_row(params![run.number, id], |row| row.get(0))?)
}

fn see(tx: &Tx<'_>, run: &Instance, delivery: &Delivery) -> Result<(), Failure> {
    let Some(id) = &delivery.id else { return Ok(()) };
    let mut see = tx.connection.prepare_cached(include_str!("../../sql/runs/see.sql"))?;
    see.execute(params![run.number, id])?;
    Ok(())
}

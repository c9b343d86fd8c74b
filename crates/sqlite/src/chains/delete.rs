//! Deleting a chain with everything in it.

use tidemill_core::Error;
use tidemill_core::name::JobId;
use tidemill_core::store::{Deleted, reserved_ids};
use tidemill_core::wake::Wake;

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::jobs::{Place, find};
use crate::row;
use crate::store::SqliteStore;

pub(crate) async fn delete(store: &SqliteStore, chain: &JobId) -> Result<Deleted, Error> {
    let chain = chain.chain();
    reserved_ids::check_deletion(&chain)?;
    store.write(Cost::change(1), move |tx| delete_one(tx, &chain)).await
}

fn delete_one(tx: &mut Tx<'_>, chain: &JobId) -> Result<Deleted, Failure> {
    let found = find(tx, chain)?;
    if let Some(found) = &found
        && let Some(waiter) = waiter(tx, found.seq)?
    {
        return Ok(Deleted::Awaited(waiter));
    }
    let forget = include_str!("../../sql/records/forget.sql");
    let had_record = tx.connection.prepare_cached(forget)?.execute([chain.as_str()])? > 0;
    let Some(found) = found else {
        return Ok(if had_record { Deleted::Yes } else { Deleted::NotFound });
    };
    found.remove(tx)?;
    if let Place::Running { .. } = found.place {
        tx.announcements.add(Wake::LeaseLost(found.job));
    }
    Ok(Deleted::Yes)
}

/// One of the jobs that wait for the chain with this number.
fn waiter(tx: &Tx<'_>, chain: i64) -> Result<Option<JobId>, Failure> {
    let mut waiter = tx.connection.prepare_cached(include_str!("../../sql/chains/waiter.sql"))?;
    let mut rows = waiter.query([chain])?;
    rows.next()?.map(|row| row::job_id(row, 0, row.get(1)?)).transpose()
}

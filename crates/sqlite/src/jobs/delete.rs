//! `delete`: deletes a chain with everything in it.

use tidemill_core::Error;
use tidemill_core::name::JobId;
use tidemill_core::store::{Deleted, reserved_ids};
use tidemill_core::wake::Wake;

use super::job_row::{JobRowState, find};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::row;
use crate::store::SqliteStore;

/// Deletes the record of a chain.
const DELETE_RECORD: &str = "DELETE FROM tidemill_records WHERE job = ?1";

/// One of the jobs that wait for a chain.
const FIND_WAITER: &str = "
    SELECT j.job, j.seq FROM tidemill_blocks b CROSS JOIN tidemill_jobs j ON j.seq = b.waiter
        WHERE b.blocker = ?1 LIMIT 1";

pub(crate) async fn delete(store: &SqliteStore, chain: &JobId) -> Result<Deleted, Error> {
    let chain = chain.chain();
    reserved_ids::check_deletion(&chain)?;
    store.write(Cost::change(1), move |tx| delete_one(tx, &chain)).await
}

fn delete_one(tx: &mut Tx<'_>, chain: &JobId) -> Result<Deleted, RequestError> {
    let row = find(tx, chain)?;
    if let Some(row) = &row
        && let Some(waiter) = find_waiter(tx, row.seq)?
    {
        return Ok(Deleted::Awaited(waiter));
    }
    let had_record = tx.connection.prepare_cached(DELETE_RECORD)?.execute([chain.as_str()])? > 0;
    let Some(row) = row else {
        return Ok(if had_record { Deleted::Yes } else { Deleted::NotFound });
    };
    row.delete(tx)?;
    if let JobRowState::Running { .. } = row.state {
        tx.wakes.add(Wake::LeaseLost(row.job));
    }
    Ok(Deleted::Yes)
}

/// One of the jobs that wait for the chain with this number.
fn find_waiter(tx: &Tx<'_>, chain: i64) -> Result<Option<JobId>, RequestError> {
    let mut find = tx.connection.prepare_cached(FIND_WAITER)?;
    let mut rows = find.query([chain])?;
    rows.next()?.map(|row| row::job_id(row, 0, row.get(1)?)).transpose()
}

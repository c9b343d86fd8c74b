//! `recover`: finds leases that a worker holds and does not know of.

use bytes::Bytes;
use tidemill_core::store::{Claimed, RecoverParams};
use tidemill_core::{Error, Queue};
use tokio_postgres::Row;

use super::{job_id_from_row, lease, number};
use crate::Inner;
use crate::sql::RECOVER;

/// How many rows one statement returns or changes at most. Further ones are found by the next.
pub(super) const MAX_BATCH_ROWS: i64 = 4_096;

impl Inner {
    pub(crate) async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        let RecoverParams { queue, worker, known_leases: known, .. } = recover;
        let Some(queue_id) = self.find_queue_id(queue).await? else { return Ok(Vec::new()) };
        let known: Vec<i64> = known.iter().map(number).collect();
        let rows = self.pool.query(&RECOVER, &[&queue_id, &worker.as_str(), &known, &MAX_BATCH_ROWS]).await?;
        rows.iter().map(|row| claimed_from_row(queue, row)).collect()
    }
}

/// A leased job as it is in the database.
pub(super) fn claimed_from_row(queue: &Queue, row: &Row) -> Result<Claimed, Error> {
    let job = job_id_from_row(row)?;
    let data = Bytes::copy_from_slice(row.get("envelope"));
    Ok(Claimed::read(data, row.get("started"), |_| lease(queue, job, row.get("seq"))))
}

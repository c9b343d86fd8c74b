//! `prune`: deletes expired records and receipts.

use std::sync::atomic::Ordering;

use tidemill_core::Error;
use tidemill_core::store::Pruned;

use super::enqueue_dependent::no_rows;
use super::promote::MAX_BATCH_ROWS;
use super::receipt::RECEIPT_MS;
use crate::Inner;
use crate::sql::{PRUNE, PRUNE_RECEIPTS};

impl Inner {
    /// Deletes expired records and receipts. A worker leaves only leases, which rescuers end.
    pub(crate) async fn prune(&self) -> Result<Pruned, Error> {
        // While there are more, the next batch starts where this one ended instead of passing dead
        // rows.
        let mark = self.pruned_to.swap(0, Ordering::Relaxed);
        let rows = self.pool.query(&PRUNE, &[&MAX_BATCH_ROWS, &mark]).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        let (records, last): (i64, Option<i64>) = (row.get("records"), row.get("last"));
        let more = records >= MAX_BATCH_ROWS;
        if more {
            self.pruned_to.store(last.unwrap_or(0), Ordering::Relaxed);
        }
        let more = self.prune_receipts().await? || more;
        Ok(Pruned { records: u64::try_from(records).unwrap_or(0), leftovers: 0, more })
    }

    /// Deletes receipts that no retry needs any more. Returns whether there may be more of them.
    async fn prune_receipts(&self) -> Result<bool, Error> {
        let mark = self.receipts_pruned_to.swap(0, Ordering::Relaxed);
        let rows = self.pool.query(&PRUNE_RECEIPTS, &[&MAX_BATCH_ROWS, &mark, &RECEIPT_MS]).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        let more = row.get::<_, i64>("receipts") >= MAX_BATCH_ROWS;
        if more {
            self.receipts_pruned_to.store(row.get::<_, Option<i64>>("last").unwrap_or(0), Ordering::Relaxed);
        }
        Ok(more)
    }
}

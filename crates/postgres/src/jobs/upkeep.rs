//! What is done to whole queues: promote, pause, purge, prune.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidemill_core::store::{PromoteParams, Promoted, Pruned};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Queue};

use super::complete::woken;
use super::link::nothing;
use super::receipt::RECEIPT_MS;
use crate::Inner;
use crate::sql::{BORDER, PAUSE, PROMOTE, PRUNE, PRUNE_RECEIPTS, PURGE, PURGE_BLOCKED, RELEASE_OWED};

/// How many rows one statement deletes: it holds their locks until it is done.
const BATCH: i64 = 2_000;

impl Inner {
    /// A scheduled job is a waiting one whose time has not come, so there is nothing to move; the time until
    /// the next is all there is to say. Alarms of runs are another matter.
    pub(crate) async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        let numbers = self.find_numbers(promote.queues).await?;
        let most = i64::try_from(promote.limit.max(1)).unwrap_or(BATCH).min(BATCH);
        let rows = self.pool.query(&PROMOTE, &[&numbers, &most]).await?;
        let row = rows.first().ok_or_else(nothing)?;
        self.announce_woken(woken(row)).await;
        if row.get("is_owed") {
            self.release_owed().await;
        }
        let next_in: Option<i64> = row.get("next_in");
        let next = next_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        Ok(Promoted { moved: u64::try_from(row.get::<_, i64>("fired")).unwrap_or(0), next })
    }

    pub(crate) async fn pause(&self, queue: &Queue, paused: bool) -> Result<(), Error> {
        let number = self.number(queue).await?;
        self.pool.execute(&PAUSE, &[&number, &paused]).await?;
        self.bus.publish_and_flush(Wake::all_waiters(queue.clone())).await;
        Ok(())
    }

    /// Frees those that wait for chains which were closed where they could not be seen. What cannot be done now is
    /// done the next time.
    pub(crate) async fn release_owed(&self) {
        match self.pool.query(&RELEASE_OWED, &[&BATCH]).await {
            Ok(rows) => {
                let words = rows.first().map(woken).unwrap_or_default();
                words
                    .into_iter()
                    .filter_map(|word| word.parse().ok())
                    .for_each(|wake| self.bus.publish(wake));
            }
            Err(error) => tracing::debug!(error = error.full_message(), "jobs are released later"),
        }
    }

    /// Deletes what waits when it is called; what comes later stays, so that a busy queue does not keep it
    /// going for ever. Blocked jobs go first: one that is freed by the end of another is a waiting job then.
    pub(crate) async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        let Some(number) = self.find_number(queue).await? else { return Ok(0) };
        let purged = self.purge_blocked(number).await? + self.purge_ready(number).await?;
        // Which of many jobs somebody waits for is not worth finding out.
        self.bus.publish_and_flush(Wake::Everything).await;
        Ok(purged)
    }

    async fn purge_blocked(&self, queue: i32) -> Result<u64, Error> {
        let (border, mut purged) = (self.border().await?, 0);
        loop {
            let rows = self.pool.query(&PURGE_BLOCKED, &[&queue, &border, &BATCH]).await?;
            let row = rows.first().ok_or_else(nothing)?;
            self.announce_woken(woken(row)).await;
            purged += u64::try_from(row.get::<_, i64>("deleted")).unwrap_or(0);
            if row.get::<_, i64>("picked") == 0 {
                return Ok(purged);
            }
        }
    }

    async fn purge_ready(&self, queue: i32) -> Result<u64, Error> {
        let border = self.border().await?;
        let (mut purged, mut due, mut seq) = (0, -1i64, -1i64);
        loop {
            let rows = self.pool.query(&PURGE, &[&queue, &border, &BATCH, &due, &seq]).await?;
            let row = rows.first().ok_or_else(nothing)?;
            let Some(last) = row.get::<_, Option<i64>>("due") else { return Ok(purged) };
            (due, seq) = (last, row.get("seq"));
            self.announce_woken(woken(row)).await;
            purged += u64::try_from(row.get::<_, i64>("deleted")).unwrap_or(0);
        }
    }

    /// What comes from now on has a greater number.
    async fn border(&self) -> Result<i64, Error> {
        Ok(self.pool.query(&BORDER, &[]).await?.first().ok_or_else(nothing)?.get(0))
    }

    /// Leases hold everything a worker leaves behind, and rescue ends those; so only records are left.
    pub(crate) async fn prune(&self) -> Result<Pruned, Error> {
        // While there is more, the next batch begins where this one ended instead of passing what is already deleted.
        let mark = self.pruned_to.swap(0, Ordering::Relaxed);
        let rows = self.pool.query(&PRUNE, &[&BATCH, &mark]).await?;
        let row = rows.first().ok_or_else(nothing)?;
        let (records, last): (i64, Option<i64>) = (row.get("records"), row.get("last"));
        let more = records >= BATCH;
        if more {
            self.pruned_to.store(last.unwrap_or(0), Ordering::Relaxed);
        }
        let more = self.prune_receipts().await? || more;
        Ok(Pruned { records: u64::try_from(records).unwrap_or(0), leftovers: 0, more })
    }

    /// Removes receipts that no repeat asks for any more. Says whether there may be more of them.
    async fn prune_receipts(&self) -> Result<bool, Error> {
        let mark = self.receipts_pruned_to.swap(0, Ordering::Relaxed);
        let rows = self.pool.query(&PRUNE_RECEIPTS, &[&BATCH, &mark, &RECEIPT_MS]).await?;
        let row = rows.first().ok_or_else(nothing)?;
        let more = row.get::<_, i64>("receipts") >= BATCH;
        if more {
            self.receipts_pruned_to.store(row.get::<_, Option<i64>>("last").unwrap_or(0), Ordering::Relaxed);
        }
        Ok(more)
    }
}

//! `purge`: deletes the waiting and blocked jobs of a queue.

use tidemill_core::wake::Wake;
use tidemill_core::{Error, Queue};

use crate::Inner;
use crate::jobs::{MAX_BATCH_ROWS, no_rows, wake_texts};
use crate::sql::{NEWEST_SEQ, PURGE, PURGE_BLOCKED};

impl Inner {
    /// Deletes the jobs that wait when it is called. Later jobs stay, so that the purge of a busy
    /// queue ends. Blocked jobs go first: one that is unblocked by the end of another is a waiting
    /// job then.
    pub(crate) async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        let Some(queue_id) = self.find_queue_id(queue).await? else { return Ok(0) };
        let purged = self.purge_blocked(queue_id).await? + self.purge_ready(queue_id).await?;
        // To find out which of many jobs have waiters would cost more than waking all.
        self.bus.publish_and_flush(Wake::Everything).await;
        Ok(purged)
    }

    async fn purge_blocked(&self, queue: i32) -> Result<u64, Error> {
        let (newest, mut purged) = (self.newest_seq().await?, 0);
        loop {
            let rows = self.pool.query(&PURGE_BLOCKED, &[&queue, &newest, &MAX_BATCH_ROWS]).await?;
            let row = rows.first().ok_or_else(no_rows)?;
            self.announce_texts(wake_texts(row)).await;
            purged += u64::try_from(row.get::<_, i64>("deleted")).unwrap_or(0);
            if row.get::<_, i64>("picked") == 0 {
                return Ok(purged);
            }
        }
    }

    async fn purge_ready(&self, queue: i32) -> Result<u64, Error> {
        let newest = self.newest_seq().await?;
        let (mut purged, mut due, mut seq) = (0, -1i64, -1i64);
        loop {
            let rows = self.pool.query(&PURGE, &[&queue, &newest, &MAX_BATCH_ROWS, &due, &seq]).await?;
            let row = rows.first().ok_or_else(no_rows)?;
            let Some(last) = row.get::<_, Option<i64>>("due") else { return Ok(purged) };
            (due, seq) = (last, row.get("seq"));
            self.announce_texts(wake_texts(row)).await;
            purged += u64::try_from(row.get::<_, i64>("deleted")).unwrap_or(0);
        }
    }

    /// A number that is smaller than those of all later jobs.
    async fn newest_seq(&self) -> Result<i64, Error> {
        Ok(self.pool.query(&NEWEST_SEQ, &[]).await?.first().ok_or_else(no_rows)?.get(0))
    }
}

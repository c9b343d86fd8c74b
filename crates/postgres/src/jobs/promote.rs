//! `promote`: fires due alarms, and returns when the next job or alarm is due.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::store::{PromoteParams, Promoted};

use super::complete::wake_texts;
use super::enqueue_dependent::no_rows;
use crate::Inner;
use crate::sql::PROMOTE;

/// How many rows one statement deletes: it holds their locks until it is done.
pub(crate) const MAX_BATCH_ROWS: i64 = 2_000;

impl Inner {
    /// Fires due alarms of runs. A scheduled job is a waiting one whose time has not come, so there
    /// is nothing to move; only the time until the next one is returned.
    pub(crate) async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        let queue_ids = self.find_queue_ids(promote.queues).await?;
        let max = i64::try_from(promote.limit.max(1)).unwrap_or(MAX_BATCH_ROWS).min(MAX_BATCH_ROWS);
        let rows = self.pool.query(&PROMOTE, &[&queue_ids, &max]).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        self.announce_texts(wake_texts(row)).await;
        if row.get("is_owed") {
            self.release_owed().await;
        }
        let next_in: Option<i64> = row.get("next_in");
        let next = next_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        Ok(Promoted { moved: u64::try_from(row.get::<_, i64>("fired")).unwrap_or(0), next })
    }
}

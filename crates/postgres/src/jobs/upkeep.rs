//! What is done to whole queues: promote, pause, purge, prune.

use std::time::Duration;

use tidemill_core::store::{Promote, Promoted, Pruned, Wake};
use tidemill_core::{Error, Queue};

use crate::Inner;
use crate::sql::{BORDER, NEXT, PAUSE, PRUNE, PURGE};

/// How many rows one statement deletes: it holds their locks until it is done.
const BATCH: i64 = 2_000;

impl Inner {
    /// A scheduled job is a waiting one whose time has not come, so there is nothing to move; the time until
    /// the next is all there is to say.
    pub(crate) async fn promote(&self, promote: Promote<'_>) -> Result<Promoted, Error> {
        let mut numbers = Vec::with_capacity(promote.queues.len());
        for queue in promote.queues {
            numbers.extend(self.find_number(queue).await?);
        }
        if numbers.is_empty() {
            return Ok(Promoted::default());
        }
        let rows = self.pool.query(&NEXT, &[&numbers]).await?;
        let next_in = rows.first().and_then(|row| row.get::<_, Option<i64>>("next_in"));
        let next = next_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        Ok(Promoted { moved: 0, next })
    }

    pub(crate) async fn pause(&self, queue: &Queue, paused: bool) -> Result<(), Error> {
        let number = self.number(queue).await?;
        self.pool.execute(&PAUSE, &[&number, &paused]).await?;
        self.hub.announce_surely(Wake::everyone(queue.clone())).await;
        Ok(())
    }

    /// Deletes what waits when it is called; what comes later stays, so that a busy queue does not keep it
    /// going for ever.
    pub(crate) async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        let Some(number) = self.find_number(queue).await? else { return Ok(0) };
        let border: i64 = self.pool.query(&BORDER, &[]).await?.first().map_or(i64::MAX, |row| row.get(0));
        let (mut purged, mut due, mut seq) = (0, -1i64, -1i64);
        loop {
            let rows = self.pool.query(&PURGE, &[&number, &border, &BATCH, &due, &seq]).await?;
            let Some(row) = rows.first() else { return Ok(purged) };
            (due, seq) = (row.get("due"), row.get("seq"));
            purged += u64::try_from(row.get::<_, i64>("deleted")).unwrap_or(0);
        }
    }

    /// Leases hold everything a worker leaves behind, and rescue ends those; so only records are left.
    pub(crate) async fn prune(&self) -> Result<Pruned, Error> {
        let records = self.pool.execute(&PRUNE, &[&BATCH]).await?;
        Ok(Pruned { records, traces: 0 })
    }
}

//! Dead letters: bringing them back and dropping them.

use tidemill_core::store::{Redrive, Wake};
use tidemill_core::{Error, JobId, Queue};

use crate::Inner;
use crate::sql::{DROP_LETTERS, REDRIVE};

impl Inner {
    pub(crate) async fn redrive(&self, redrive: Redrive<'_>) -> Result<u64, Error> {
        let mut letters: Vec<_> = redrive.letters.iter().collect();
        letters.sort_by_key(|(job, _)| job);
        letters.dedup_by_key(|(job, _)| job);
        let ids: Vec<&str> = letters.iter().map(|(job, _)| job.as_str()).collect();
        let envelopes: Vec<&[u8]> = letters.iter().map(|(_, envelope)| &**envelope).collect();
        let Some(number) = self.find_number(redrive.queue).await? else { return Ok(0) };
        let moved = self.pool.execute(&REDRIVE, &[&number, &ids, &envelopes]).await?;
        if moved > 0 {
            let jobs = usize::try_from(moved).unwrap_or(usize::MAX);
            self.hub.announce_surely(Wake::Queue { queue: redrive.queue.clone(), jobs }).await;
        }
        Ok(moved)
    }

    pub(crate) async fn drop_letters(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        let mut ids: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
        ids.sort_unstable();
        ids.dedup();
        let Some(number) = self.find_number(queue).await? else { return Ok(0) };
        self.pool.execute(&DROP_LETTERS, &[&number, &ids]).await
    }
}

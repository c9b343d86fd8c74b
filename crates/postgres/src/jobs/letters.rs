//! Dead letters: bringing them back and dropping them.

use tidemill_core::store::RedriveParams;
use tidemill_core::wake::Wake;
use tidemill_core::{Error, JobId, Queue};

use super::complete::woken;
use super::link::nothing;
use crate::Inner;
use crate::sql::{DROP_LETTERS, REDRIVE};

impl Inner {
    pub(crate) async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        let mut letters: Vec<_> =
            redrive.letters.iter().map(|letter| (letter.job.chain(), letter.job.step(), letter)).collect();
        letters.sort_by(|one, other| one.0.cmp(&other.0));
        letters.dedup_by(|one, other| one.0 == other.0);
        let chains: Vec<&str> = letters.iter().map(|(chain, ..)| chain.as_str()).collect();
        let steps: Vec<i32> = letters.iter().map(|(_, step, _)| i32::try_from(*step).unwrap_or(-1)).collect();
        let envelopes: Vec<&[u8]> = letters.iter().map(|(.., letter)| &*letter.envelope).collect();
        let found: Vec<&[u8]> = letters.iter().map(|(.., letter)| &*letter.letter).collect();
        let Some(number) = self.find_number(redrive.queue).await? else { return Ok(0) };
        let moved = self.pool.execute(&REDRIVE, &[&number, &chains, &steps, &envelopes, &found]).await?;
        // Also if none moved: the call that moved them may have been this one, and its answer lost.
        if !letters.is_empty() {
            let jobs = letters.len();
            self.bus.publish_and_flush(Wake::Queue { queue: redrive.queue.clone(), jobs }).await;
        }
        Ok(moved)
    }

    pub(crate) async fn drop_letters(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        let chains: Vec<JobId> = jobs.iter().filter(|job| !job.is_task()).map(JobId::chain).collect();
        let chains: Vec<&str> = chains.iter().map(JobId::as_str).collect();
        let Some(number) = self.find_number(queue).await? else { return Ok(0) };
        let rows = self.pool.query(&DROP_LETTERS, &[&number, &chains]).await?;
        let row = rows.first().ok_or_else(nothing)?;
        self.announce_woken(woken(row)).await;
        Ok(u64::try_from(row.get::<_, i64>("dropped")).unwrap_or(0))
    }
}

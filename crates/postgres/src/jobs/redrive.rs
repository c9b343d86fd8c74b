//! `redrive`: makes dead letters ready again.

use tidemill_core::Error;
use tidemill_core::store::RedriveParams;
use tidemill_core::wake::Wake;

use crate::Inner;
use crate::sql::REDRIVE;

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
        let Some(queue_id) = self.find_queue_id(redrive.queue).await? else { return Ok(0) };
        let moved = self.pool.execute(&REDRIVE, &[&queue_id, &chains, &steps, &envelopes, &found]).await?;
        // Also if none moved: this may be the retry of a call that moved them.
        if !letters.is_empty() {
            let jobs = letters.len();
            self.bus.publish_and_flush(Wake::Queue { queue: redrive.queue.clone(), jobs }).await;
        }
        Ok(moved)
    }
}

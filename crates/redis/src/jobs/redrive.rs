//! Redriving dead letters: moves them back to their queue.

use tidemill_core::store::{RedriveItem, RedriveParams};
use tidemill_core::{Envelope, Error, JobId};

use super::dead_letters::parse_count;
use super::script_batches;
use crate::connection::ScriptCall;
use crate::connection::keys::kind_letter;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn redrive_dead_letters(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        let jobs: Vec<&JobId> = redrive.letters.iter().map(|letter| &letter.job).collect();
        let mut moved = 0;
        for (shard, found) in self.find_letters(redrive.queue, &jobs).await? {
            let bytes_of = |position: usize| {
                let RedriveItem { letter, envelope, .. } = &redrive.letters[found[position].0];
                letter.len() + envelope.len()
            };
            for batch in script_batches((0..found.len()).collect(), bytes_of) {
                let items: Vec<_> = batch.into_iter().map(|position| &found[position]).collect();
                moved += self.redrive_batch(shard, &redrive, &items).await?;
            }
        }
        Ok(moved)
    }

    async fn redrive_batch(
        &self,
        shard: u16,
        redrive: &RedriveParams<'_>,
        items: &[&(usize, String)],
    ) -> Result<u64, Error> {
        let queue = redrive.queue;
        let keys = [self.keys.target(shard, queue), self.keys.dlq(shard, queue), self.keys.jobs(shard)];
        let mut call =
            ScriptCall::new(&self.scripts.redrive, &keys).arg(kind_letter(queue)).arg(queue.name.as_str());
        for (index, entry) in items {
            let RedriveItem { job, letter, envelope } = &redrive.letters[*index];
            let tracked = Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked());
            call.push(entry);
            call.push(job.as_str());
            call.push(&letter[..]);
            call.push(if tracked { "1" } else { "0" });
            call.push(&envelope[..]);
        }
        parse_count(&self.connections.call(shard, call).await?)
    }
}

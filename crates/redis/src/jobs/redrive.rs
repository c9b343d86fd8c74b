//! Redriving dead letters: back to their queue.

use tidemill_core::store::{RedriveItem, RedriveParams};
use tidemill_core::{Envelope, Error, JobId};

use super::dead_letters::count;
use super::portions;
use crate::connection::Call;
use crate::connection::keys::letter;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn redrive_letters(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        let jobs: Vec<&JobId> = redrive.letters.iter().map(|letter| &letter.job).collect();
        let mut moved = 0;
        for (shard, found) in self.find_letters(redrive.queue, &jobs).await? {
            let weigh = |position: usize| {
                let RedriveItem { letter, envelope, .. } = &redrive.letters[found[position].0];
                letter.len() + envelope.len()
            };
            for portion in portions((0..found.len()).collect(), weigh) {
                let part: Vec<_> = portion.into_iter().map(|position| &found[position]).collect();
                moved += self.redrive_some(shard, &redrive, &part).await?;
            }
        }
        Ok(moved)
    }

    async fn redrive_some(
        &self,
        shard: u16,
        redrive: &RedriveParams<'_>,
        part: &[&(usize, String)],
    ) -> Result<u64, Error> {
        let queue = redrive.queue;
        let keys = [self.keys.target(shard, queue), self.keys.dlq(shard, queue), self.keys.jobs(shard)];
        let mut call = Call::new(&self.scripts.redrive, &keys).arg(letter(queue)).arg(queue.name.as_str());
        for (index, entry) in part {
            let RedriveItem { job, letter, envelope } = &redrive.letters[*index];
            let tracked = Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked());
            call.push(entry);
            call.push(job.as_str());
            call.push(&letter[..]);
            call.push(if tracked { "1" } else { "0" });
            call.push(&envelope[..]);
        }
        count(&self.link.call(shard, call).await?)
    }
}

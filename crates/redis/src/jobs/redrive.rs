//! Redriving dead letters: moves them back to their queue.

use tidemill_core::store::{RedriveItem, RedriveParams};
use tidemill_core::{Envelope, Error, JobId};

use super::dead_letters::parse_count;
use super::script_batches;
use crate::connection::ScriptCall;
use crate::connection::keys::kind_letter;
use crate::connection::named_args::NamedArgs;
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
        let letter = |(index, entry): &&(usize, String)| {
            let RedriveItem { job, letter, envelope } = &redrive.letters[*index];
            NamedArgs::new()
                .with("entry", entry)
                .with("job", job.as_str())
                .with("letter", letter)
                .with("tracked", Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked()))
                .with("envelope", envelope)
        };
        let args = NamedArgs::new()
            .with("kind", kind_letter(queue))
            .with("queue", queue.name.as_str())
            .with("letters", items.iter().map(letter).collect::<Vec<_>>());
        let call = ScriptCall::named(&self.scripts.redrive, &keys, &args);
        parse_count(&self.connections.call(shard, call).await?)
    }
}

//! Deleting dead letters.

use redis::Value;
use tidemill_core::{Error, JobId, Queue};

use super::dead_letters::parse_count;
use crate::chains::outbox::OutboxEntry;
use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::array;
use crate::store::RedisStore;

/// How many dead letters one script deletes.
const MAX_BATCH_LETTERS: usize = 250;

impl RedisStore {
    pub(crate) async fn drop_dead_letters(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        let requested: Vec<&JobId> = jobs.iter().filter(|job| !job.is_task()).collect();
        let mut dropped = 0;
        for (shard, found) in self.find_letters(queue, &requested).await? {
            for part in found.chunks(MAX_BATCH_LETTERS) {
                let mut keys = self.keys.shard_keys(shard);
                keys.push(self.keys.dlq(shard, queue));
                let letter = |(index, entry): &(usize, String)| {
                    NamedArgs::new().with("entry", entry).with("job", requested[*index].as_str())
                };
                let args = NamedArgs::new()
                    .with("channel", self.keys.channel())
                    .with("letters", part.iter().map(letter).collect::<Vec<_>>());
                let call = ScriptCall::named(&self.scripts.drop_dead, &keys, &args);
                let mut parts = array(self.connections.call(shard, call).await?).unwrap_or_default();
                let outbox = OutboxEntry::parse_all(parts.split_off(parts.len().min(1)));
                self.process_outbox(shard, outbox).await;
                dropped += parse_count(parts.first().unwrap_or(&Value::Nil))?;
            }
        }
        Ok(dropped)
    }
}

//! Deleting dead letters.

use redis::Value;
use tidemill_core::{Error, JobId, Queue};

use super::dead_letters::count;
use crate::chains::outbox::Errand;
use crate::connection::Call;
use crate::connection::reply::array;
use crate::store::RedisStore;

/// Letters dropped by one script.
const BATCH: usize = 250;

impl RedisStore {
    pub(crate) async fn delete_letters(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        let asked: Vec<&JobId> = jobs.iter().filter(|job| !job.is_task()).collect();
        let mut dropped = 0;
        for (shard, found) in self.find_letters(queue, &asked).await? {
            for part in found.chunks(BATCH) {
                let mut keys = self.keys.home(shard);
                keys.push(self.keys.dlq(shard, queue));
                let mut call = Call::new(&self.scripts.drop_dead, &keys).arg(self.keys.channel());
                for (index, entry) in part {
                    call.push(entry);
                    call.push(asked[*index].as_str());
                }
                let mut parts = array(self.link.call(shard, call).await?).unwrap_or_default();
                let errands = Errand::all(parts.split_off(parts.len().min(1)));
                self.carry_on(shard, errands).await;
                dropped += count(parts.first().unwrap_or(&Value::Nil))?;
            }
        }
        Ok(dropped)
    }
}

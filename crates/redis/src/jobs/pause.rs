//! Pausing, resuming and purging a queue.

use tidemill_core::store::Wake;
use tidemill_core::{Delivery, Error, Queue};

use crate::error::odd_answer;
use crate::keys::letter;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::ints;

/// How many jobs one purging script deletes.
const PURGE_BATCH: usize = 500;

impl RedisStore {
    pub(crate) async fn pause_queue(&self, queue: &Queue) -> Result<(), Error> {
        for shard in 0..self.keys.shards() {
            let paused = self.keys.paused(shard, queue);
            match queue.delivery {
                Delivery::AtLeastOnce => {
                    let keys = [self.keys.target(shard, queue), paused];
                    let call = Call::new(&self.scripts.pause, &keys).arg(self.group(queue));
                    self.link.call(shard, call).await?;
                }
                Delivery::AtMostOnce => {
                    self.link.query::<()>(shard, redis::cmd("SET").arg(paused).arg(1)).await?;
                }
            }
            let member = format!("{} {}", letter(queue), queue.name);
            self.link
                .query::<i64>(shard, redis::cmd("SADD").arg(self.keys.queues(shard)).arg(member))
                .await?;
        }
        self.note_paused(queue, true);
        self.announce(queue).await
    }

    pub(crate) async fn resume_queue(&self, queue: &Queue) -> Result<(), Error> {
        for shard in 0..self.keys.shards() {
            let paused = self.keys.paused(shard, queue);
            match queue.delivery {
                Delivery::AtLeastOnce => {
                    let keys = [self.keys.target(shard, queue), paused];
                    let call = Call::new(&self.scripts.resume, &keys).arg(self.group(queue));
                    self.link.call(shard, call).await?;
                }
                Delivery::AtMostOnce => {
                    self.link.query::<i64>(shard, redis::cmd("DEL").arg(paused)).await?;
                }
            }
        }
        self.note_paused(queue, false);
        self.announce(queue).await
    }

    async fn announce(&self, queue: &Queue) -> Result<(), Error> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.keys.channel()).arg(Wake::everyone(queue.clone()).to_string());
        self.link.query::<i64>(0, &publish).await.map(drop)
    }

    pub(crate) async fn purge_queue(&self, queue: &Queue) -> Result<u64, Error> {
        let mut purged = 0;
        for shard in 0..self.keys.shards() {
            loop {
                let (deleted, seen) = self.purge_some(shard, queue).await?;
                purged += deleted;
                if seen == 0 {
                    break;
                }
            }
        }
        Ok(purged)
    }

    /// Purges a batch; returns how many jobs were deleted and how many looked at.
    async fn purge_some(&self, shard: u16, queue: &Queue) -> Result<(u64, u64), Error> {
        let keys = [
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.jobs(shard),
            self.keys.paused(shard, queue),
            self.keys.dropped(shard, queue),
        ];
        let call =
            Call::new(&self.scripts.purge, &keys).arg(letter(queue)).arg(self.group(queue)).arg(PURGE_BATCH);
        let counts = ints(self.link.call(shard, call).await?, "purge")?;
        let [deleted, seen] = counts[..] else { return Err(odd_answer("purge")) };
        Ok((deleted.unsigned_abs(), seen.unsigned_abs()))
    }
}

//! Resuming a queue.

use tidemill_core::{Error, Guarantee, Queue};

use crate::connection::ScriptCall;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn resume_queue(&self, queue: &Queue) -> Result<(), Error> {
        let resumed = self.each_shard(SHARD_TIMEOUT, |shard| self.resume_in(shard, queue)).await;
        self.cache_paused(queue, false);
        let announced = self.announce(queue).await;
        resumed.all().and(announced)
    }

    async fn resume_in(&self, shard: u16, queue: &Queue) -> Result<(), Error> {
        let paused = self.keys.paused(shard, queue);
        match queue.guarantee {
            Guarantee::AtLeastOnce => {
                let keys = [self.keys.target(shard, queue), paused];
                let call = ScriptCall::new(&self.scripts.resume, &keys).arg(self.group(queue));
                self.connections.call(shard, call).await.map(drop)
            }
            Guarantee::AtMostOnce => {
                self.connections.query::<i64>(shard, redis::cmd("DEL").arg(paused)).await.map(drop)
            }
        }
    }
}

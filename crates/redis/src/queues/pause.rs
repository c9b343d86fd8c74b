//! Pausing a queue.

use tidemill_core::wake::Wake;
use tidemill_core::{Error, Guarantee, Queue};

use crate::connection::ScriptCall;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::keys::queue_member;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn pause_queue(&self, queue: &Queue) -> Result<(), Error> {
        let paused = self.each_shard(SHARD_TIMEOUT, |shard| self.pause_in(shard, queue)).await;
        // The shards that replied are paused, whatever the others do.
        self.cache_paused(queue, true);
        let announced = self.announce(queue).await;
        paused.all().and(announced)
    }

    async fn pause_in(&self, shard: u16, queue: &Queue) -> Result<(), Error> {
        let (paused, queues) = (self.keys.paused(shard, queue), self.keys.queues(shard));
        match queue.guarantee {
            Guarantee::AtLeastOnce => {
                let keys = [self.keys.target(shard, queue), paused, queues];
                let call = ScriptCall::new(&self.scripts.pause, &keys).arg(self.group(queue));
                self.connections.call(shard, call.arg(queue_member(queue))).await.map(drop)
            }
            Guarantee::AtMostOnce => {
                // The command that can fail comes first.
                let enter = redis::cmd("SADD").arg(queues).arg(queue_member(queue)).take();
                self.connections.query::<i64>(shard, &enter).await?;
                self.connections.query::<()>(shard, redis::cmd("SET").arg(paused).arg(1)).await
            }
        }
    }

    pub(super) async fn announce(&self, queue: &Queue) -> Result<(), Error> {
        // In a Cluster every server delivers every message.
        let shard = self.reachable_shards().first().copied().unwrap_or(0);
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.keys.channel()).arg(Wake::all_waiters(queue.clone()).to_string());
        match self.connections.query::<i64>(shard, &publish).await {
            // As in scripts: the change is made, and listeners find it by polling.
            Ok(_) | Err(Error::Denied(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

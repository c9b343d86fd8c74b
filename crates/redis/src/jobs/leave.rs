//! Removing a worker from its queues.

use tidemill_core::{Error, Guarantee, HolderId, Queue};

use crate::connection::ScriptCall;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::int;
use crate::store::RedisStore;

/// A consumer without reads for this long, and without pending entries, is removed.
const IDLE_CONSUMER_MS: u64 = 10 * 60 * 1000;

impl RedisStore {
    pub(crate) async fn remove_worker(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        let left = self
            .each_shard(SHARD_TIMEOUT, |shard| self.remove_from(shard, worker, queues))
            .await
            .all()
            .map(drop);
        self.prepared
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .retain(|(_, _, prepared)| prepared != worker);
        left.and(self.remove_copies(worker).await)
    }

    async fn remove_from(&self, shard: u16, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        for queue in queues.iter().filter(|queue| queue.guarantee == Guarantee::AtLeastOnce) {
            self.remove_consumers((shard, queue), worker.as_str()).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_consumers(
        &self,
        (shard, queue): (u16, &Queue),
        worker: &str,
    ) -> Result<u64, Error> {
        let keys = [self.keys.target(shard, queue), self.keys.leases(shard, queue)];
        let call = ScriptCall::new(&self.scripts.leave, &keys)
            .arg(self.group(queue))
            .arg(worker)
            .arg(IDLE_CONSUMER_MS);
        let removed = int(&self.connections.call(shard, call).await?);
        Ok(removed.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }
}

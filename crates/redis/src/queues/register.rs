//! Registering queues, so that they can be listed.

use tidemill_core::{Error, Queue};

use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::keys::queue_member;
use crate::store::RedisStore;

impl RedisStore {
    /// Adds queues to the registry of every shard.
    pub(crate) async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        self.each_shard(SHARD_TIMEOUT, |shard| self.register_in(shard, queues)).await.all().map(drop)
    }

    pub(super) async fn register_in(&self, shard: u16, queues: &[Queue]) -> Result<(), Error> {
        let mut add = redis::cmd("SADD");
        add.arg(self.keys.queues(shard));
        for queue in queues {
            add.arg(queue_member(queue));
        }
        self.connections.query::<i64>(shard, &add).await.map(drop)
    }
}

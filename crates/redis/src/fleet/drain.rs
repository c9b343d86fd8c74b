//! Ordering a worker to drain.

use tidemill_core::Error;
use tidemill_core::fleet::{WorkerDefaults, WorkerKey};

use crate::connection::reply::int;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn drain_member(&self, member: &WorkerKey) -> Result<bool, Error> {
        let call = self
            .call_on_fleet(&self.registry.scripts.drain, WorkerDefaults::default())
            .arg(member.to_string());
        Ok(int(&self.ask_fleet(call).await?) == Some(1))
    }
}

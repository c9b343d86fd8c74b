//! Ordering a worker to drain.

use tidemill_core::Error;
use tidemill_core::fleet::{WorkerDefaults, WorkerKey};

use crate::connection::reply::int;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn drain_worker(&self, worker: &WorkerKey) -> Result<bool, Error> {
        let call = self
            .fleet_script_call(&self.fleet_state.scripts.drain, WorkerDefaults::default())
            .arg(worker.to_string());
        Ok(int(&self.call_fleet(call).await?) == Some(1))
    }
}

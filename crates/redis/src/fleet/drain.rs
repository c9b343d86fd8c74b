//! Ordering a worker to drain.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::int;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn drain_worker(&self, worker: &WorkerKey) -> Result<bool, Error> {
        let args = NamedArgs::new().with("worker", worker.to_string());
        Ok(int(&self.call_fleet(&self.fleet_state.scripts.drain, args).await?) == Some(1))
    }
}

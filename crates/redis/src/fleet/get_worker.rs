//! `get_worker`: one worker.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::WorkerInfo;

use super::list_workers::{read_page, read_worker};
use crate::connection::named_args::NamedArgs;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn find_worker(&self, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
        let args = NamedArgs::new().with("worker", worker.to_string());
        let reply = self.call_fleet(&self.fleet_state.scripts.list_workers, args).await?;
        Ok(read_page(reply, read_worker)?.items.pop())
    }
}

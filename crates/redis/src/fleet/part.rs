//! Removing workers from the fleet.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;

use crate::connection::named_args::NamedArgs;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn part_workers(&self, workers: &[WorkerKey]) -> Result<(), Error> {
        for batch in script_batches((0..workers.len()).collect(), |_| 0) {
            let ids: Vec<String> = batch.iter().map(|&position| workers[position].to_string()).collect();
            let args = NamedArgs::new().with("workers", ids);
            self.call_fleet(&self.fleet_state.scripts.part, args).await?;
        }
        Ok(())
    }
}

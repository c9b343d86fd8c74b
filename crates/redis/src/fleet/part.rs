//! Removing workers from the fleet.

use tidemill_core::Error;
use tidemill_core::fleet::{WorkerDefaults, WorkerKey};

use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn part_workers(&self, workers: &[WorkerKey]) -> Result<(), Error> {
        for batch in script_batches((0..workers.len()).collect(), |_| 0) {
            let mut call = self.fleet_script_call(&self.fleet_state.scripts.part, WorkerDefaults::default());
            batch.iter().for_each(|&position| call.push(workers[position].to_string()));
            self.call_fleet(call).await?;
        }
        Ok(())
    }
}

//! Heartbeats of workers.

use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::{BeatParams, WorkerOrders};

use super::join::{push_worker, worker_batches};
use crate::connection::reply::ints;
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn beat_workers(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        let mut orders = Vec::with_capacity(beat.workers.len());
        for batch in worker_batches(beat.workers)? {
            let mut call = self
                .fleet_script_call(&self.fleet_state.scripts.beat, WorkerDefaults::default())
                .arg(millis(beat.grace));
            batch.iter().for_each(|&position| push_worker(&mut call, &beat.workers[position]));
            let numbers = ints(self.call_fleet(call).await?, "beat")?;
            if numbers.len() != 3 * batch.len() {
                return Err(unexpected_reply("beat"));
            }
            orders.extend(numbers.chunks_exact(3).map(read_orders));
        }
        Ok(orders)
    }
}

fn read_orders(numbers: &[i64]) -> WorkerOrders {
    WorkerOrders {
        drain: numbers[0] == 1,
        active: u32::try_from(numbers[1]).unwrap_or(0),
        lifetime: u64::try_from(numbers[2]).unwrap_or(0),
    }
}

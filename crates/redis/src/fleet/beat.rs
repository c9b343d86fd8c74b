//! Heartbeats of workers.

use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::store::fleet::{BeatParams, WorkerOrders};

use super::join::{worker_args, worker_batches};
use crate::connection::reply::ints;
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn beat_workers(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        let mut orders = Vec::with_capacity(beat.workers.len());
        for batch in worker_batches(beat.workers)? {
            let args = worker_args(beat.workers, &batch).with("grace", millis(beat.grace));
            let numbers = ints(self.call_fleet(&self.fleet_state.scripts.beat, args).await?, "beat")?;
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

//! Heartbeats of workers.

use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::{BeatParams, WorkerOrders};

use super::join::{parts_of, push_member};
use crate::connection::reply::ints;
use crate::error::odd_answer;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn keep_members(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        let mut orders = Vec::with_capacity(beat.workers.len());
        for portion in parts_of(beat.workers)? {
            let mut call = self
                .call_on_fleet(&self.registry.scripts.beat, WorkerDefaults::default())
                .arg(millis(beat.grace));
            portion.iter().for_each(|&position| push_member(&mut call, &beat.workers[position]));
            let numbers = ints(self.ask_fleet(call).await?, "beat")?;
            if numbers.len() != 3 * portion.len() {
                return Err(odd_answer("beat"));
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

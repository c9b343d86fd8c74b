//! Adding workers to the fleet.

use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::{WorkerEntry, WorkerStatus};

use crate::connection::ScriptCall;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn join_workers(&self, workers: &[WorkerEntry]) -> Result<(), Error> {
        for batch in worker_batches(workers)? {
            let mut call = self.fleet_script_call(&self.fleet_state.scripts.join, WorkerDefaults::default());
            batch.iter().for_each(|&position| push_worker(&mut call, &workers[position]));
            self.call_fleet(call).await?;
        }
        Ok(())
    }
}

/// The batches for one script each.
pub(super) fn worker_batches(workers: &[WorkerEntry]) -> Result<Vec<Vec<usize>>, Error> {
    workers.iter().try_for_each(WorkerEntry::check)?;
    Ok(script_batches((0..workers.len()).collect(), |position| worker_cost(&workers[position])))
}

/// Approximate cost of a worker in bytes of script work: about a hundred workers per script.
fn worker_cost(worker: &WorkerEntry) -> usize {
    const SCRIPT_COST: usize = 40_000;
    SCRIPT_COST + worker.endpoint.len() + worker.detail.len()
}

/// Adds a worker, as `lua/lib/worker.lua` reads it.
pub(super) fn push_worker(call: &mut ScriptCall<'_>, worker: &WorkerEntry) {
    call.push(worker.id.to_string());
    call.push(worker.offer.as_str());
    call.push(&worker.endpoint);
    call.push(match worker.status {
        WorkerStatus::Available => "available",
        WorkerStatus::Draining => "draining",
    });
    call.push(worker.capacity.concurrent);
    call.push(worker.capacity.lifetime);
    call.push(millis(worker.beat_timeout));
    call.push(&worker.detail[..]);
}

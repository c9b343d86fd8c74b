//! Adding workers to the fleet.

use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::store::fleet::{WorkerEntry, WorkerStatus};

use crate::connection::named_args::NamedArgs;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn join_workers(&self, workers: &[WorkerEntry]) -> Result<(), Error> {
        for batch in worker_batches(workers)? {
            self.call_fleet(&self.fleet_state.scripts.join, worker_args(workers, &batch)).await?;
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

/// The workers of a batch, as `lua/lib/worker.lua` reads them.
pub(super) fn worker_args(workers: &[WorkerEntry], batch: &[usize]) -> NamedArgs {
    let described = batch.iter().map(|&position| describe(&workers[position]));
    NamedArgs::new().with("workers", described.collect::<Vec<_>>())
}

fn describe(worker: &WorkerEntry) -> NamedArgs {
    let status = match worker.status {
        WorkerStatus::Available => "available",
        WorkerStatus::Draining => "draining",
    };
    NamedArgs::new()
        .with("id", worker.id.to_string())
        .with("offer", worker.offer.as_str())
        .with("endpoint", &worker.endpoint)
        .with("status", status)
        .with("concurrent", worker.capacity.concurrent)
        .with("limit", worker.capacity.lifetime)
        .with("fresh", millis(worker.beat_timeout))
        .with("detail", &worker.detail)
}

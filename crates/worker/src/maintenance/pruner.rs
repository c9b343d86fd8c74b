//! Removes what has outlived its purpose.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::workflow::WORKFLOW_QUEUE;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::jittered;
use crate::deadline::{ANSWER, within};
use crate::station::Station;

const PERIOD: Duration = Duration::from_secs(60);

/// How often ended runs are asked for in one round.
const ROUNDS: usize = 100;

/// Prunes once a minute.
pub(crate) struct Pruner {
    station: Arc<Station>,
}

impl Pruner {
    pub(crate) fn new(station: Arc<Station>) -> Self {
        Self { station }
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.prune_for_ever()).await;
    }

    /// Each call removes a bounded number; a round goes on while there is more, but not for ever.
    async fn prune_runs(&self) -> Result<(), Error> {
        let ended = self.station.manner.ended_runs;
        for _ in 0..ROUNDS {
            if within(ANSWER, "prune_runs", self.station.store.prune_runs(ended)).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn prune_for_ever(&self) {
        let mut outage = self.station.outage("pruning");
        let queues = self.station.queues();
        loop {
            self.station.store.clock().sleep(jittered(PERIOD)).await;
            match within(ANSWER, "prune", self.station.store.prune(&queues)).await {
                Ok(pruned) => {
                    outage.is_over();
                    debug!(records = pruned.records, traces = pruned.traces, "pruned");
                }
                // The next round is soon enough.
                Err(error) => drop(outage.failed(&error)),
            }
            if queues.iter().any(|queue| queue.name.as_str().starts_with(WORKFLOW_QUEUE))
                && let Err(error) = self.prune_runs().await
            {
                let _ = outage.failed(&error);
            }
        }
    }
}

//! Removes what has outlived its purpose.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::workflow::WORKFLOW_QUEUE;
use tidemill_core::{Error, Queue};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::jittered;
use crate::deadline::{ANSWER, within};
use crate::station::Station;

/// How often a worker prunes.
const PERIOD: Duration = Duration::from_secs(30);

/// How often, after a round that took more than one call: as records are made, so are they removed.
const BUSY_PERIOD: Duration = Duration::from_secs(5);

/// Prunes twice a minute, and more often while there is much to prune.
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

    /// Each call removes a bounded number, so that nobody waits long for it; a round goes on until nothing is left. Says
    /// whether that took more than one call.
    async fn prune(&self, queues: &[Queue]) -> Result<bool, Error> {
        let mut is_busy = false;
        loop {
            let pruned = within(ANSWER, "prune", self.station.store.prune(queues)).await?;
            debug!(records = pruned.records, traces = pruned.traces, "pruned");
            if !pruned.more {
                return Ok(is_busy);
            }
            is_busy = true;
        }
    }

    async fn prune_runs(&self) -> Result<bool, Error> {
        let ended = self.station.manner.ended_runs;
        let mut is_busy = false;
        while within(ANSWER, "prune_runs", self.station.store.prune_runs(ended)).await? > 0 {
            is_busy = true;
        }
        Ok(is_busy)
    }

    async fn prune_all(&self, queues: &[Queue]) -> Result<bool, Error> {
        let is_busy = self.prune(queues).await?;
        if queues.iter().any(|queue| queue.name.as_str().starts_with(WORKFLOW_QUEUE)) {
            return Ok(self.prune_runs().await? || is_busy);
        }
        Ok(is_busy)
    }

    async fn prune_for_ever(&self) {
        let mut outage = self.station.outage("pruning");
        let queues = self.station.queues();
        let mut period = PERIOD;
        loop {
            self.station.store.clock().sleep(jittered(period)).await;
            period = match self.prune_all(&queues).await {
                Ok(is_busy) => {
                    outage.is_over();
                    if is_busy { BUSY_PERIOD } else { PERIOD }
                }
                // The next round is soon enough.
                Err(error) => {
                    let _ = outage.failed(&error);
                    PERIOD
                }
            };
        }
    }
}

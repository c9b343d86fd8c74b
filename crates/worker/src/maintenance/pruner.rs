//! The pruner: removes expired records and ended runs.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::workflow::WORKFLOW_QUEUE;
use tidemill_core::{Error, Queue};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::jittered;
use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::shared::WorkerShared;

/// The regular interval.
const PRUNE_INTERVAL: Duration = Duration::from_secs(30);

/// The interval after a round with more than one call, so that removal keeps up with creation.
const BUSY_PRUNE_INTERVAL: Duration = Duration::from_secs(5);

/// Prunes twice a minute, and more often while there is much to remove.
pub(crate) struct Pruner {
    shared: Arc<WorkerShared>,
}

impl Pruner {
    pub(crate) fn new(shared: Arc<WorkerShared>) -> Self {
        Self { shared }
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.prune_loop()).await;
    }

    /// Each call removes a limited number of records, so that it blocks others only briefly. Calls
    /// until nothing is left. Returns whether that took more than one call.
    async fn prune(&self, queues: &[Queue]) -> Result<bool, Error> {
        let mut is_busy = false;
        loop {
            let pruned = with_timeout(CALL_TIMEOUT, "prune", self.shared.store.prune(queues)).await?;
            debug!(records = pruned.records, traces = pruned.leftovers, "pruned");
            if !pruned.more {
                return Ok(is_busy);
            }
            is_busy = true;
        }
    }

    async fn prune_runs(&self) -> Result<bool, Error> {
        let ended = self.shared.config.ended_runs;
        let mut is_busy = false;
        while with_timeout(CALL_TIMEOUT, "prune_runs", self.shared.store.prune_runs(ended)).await? > 0 {
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

    async fn prune_loop(&self) {
        let mut backoff = self.shared.backoff("pruning");
        let queues = self.shared.queues();
        let mut interval = PRUNE_INTERVAL;
        loop {
            self.shared.store.clock().sleep(jittered(interval)).await;
            interval = match self.prune_all(&queues).await {
                Ok(is_busy) => {
                    backoff.record_success();
                    if is_busy { BUSY_PRUNE_INTERVAL } else { PRUNE_INTERVAL }
                }
                // Retried in the next round.
                Err(error) => {
                    let _ = backoff.record_failure(&error);
                    PRUNE_INTERVAL
                }
            };
        }
    }
}

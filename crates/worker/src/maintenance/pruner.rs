//! Removes what has outlived its purpose.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::jittered;
use crate::deadline::{ANSWER, within};
use crate::outage::Outage;
use crate::station::Station;

const PERIOD: Duration = Duration::from_secs(60);

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

    async fn prune_for_ever(&self) {
        let mut outage = Outage::of("pruning");
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
        }
    }
}

//! The reaper: removes expired entries from the fleet.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::jittered;
use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::shared::WorkerShared;

const REAP_INTERVAL: Duration = Duration::from_secs(60);

/// Reaps once a minute. It does not register workers of foreign programs: only gateways know what
/// those may do.
pub(crate) struct Reaper {
    shared: Arc<WorkerShared>,
}

impl Reaper {
    pub(crate) fn new(shared: Arc<WorkerShared>) -> Self {
        Self { shared }
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.reap_loop()).await;
    }

    async fn reap_loop(&self) {
        let mut backoff = self.shared.backoff("removing expired entries from the fleet");
        loop {
            self.shared.store.clock().sleep(jittered(REAP_INTERVAL)).await;
            match with_timeout(CALL_TIMEOUT, "reap", self.shared.store.reap(None)).await {
                Ok(reaped) => {
                    backoff.record_success();
                    reaped
                        .workers
                        .iter()
                        .for_each(|member| info!(%member, "removed from the fleet: its entry has expired"));
                }
                // Retried in the next round.
                Err(error) => drop(backoff.record_failure(&error)),
            }
        }
    }
}

//! The rescuer: makes jobs of dead workers ready again.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::settle::expired::{RescuedDeath, Rescuer};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::jittered;
use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::shared::WorkerShared;

/// The maximum interval. Jobs of a dead worker run again within a second of their lease's expiry,
/// and an idle rescuer sends well under two commands a second.
const RESCUE_INTERVAL: Duration = Duration::from_millis(900);

/// Finds expired leases in all queues of the store.
pub(crate) struct LeaseRescuer {
    shared: Arc<WorkerShared>,
    rescuer: Rescuer,
}

impl LeaseRescuer {
    pub(crate) fn new(shared: Arc<WorkerShared>) -> Self {
        let rescuer = Rescuer::new(shared.queues(), shared.config.lease);
        Self { shared, rescuer }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.rescue_loop()).await;
    }

    async fn rescue_loop(&mut self) {
        let mut backoff = self.shared.backoff("rescuing jobs of dead workers");
        loop {
            match self.rescue().await {
                Ok(()) => {
                    backoff.record_success();
                    self.shared
                        .store
                        .clock()
                        .sleep(jittered(RESCUE_INTERVAL.min(self.shared.heartbeat_interval())))
                        .await;
                }
                Err(error) => tokio::time::sleep(backoff.record_failure(&error)).await,
            }
        }
    }

    async fn rescue(&mut self) -> Result<(), Error> {
        // Reads page after page. After the death of many workers this takes longer than one call.
        let mut died = |death: RescuedDeath<'_>| self.shared.failure_log.died_unattended(&death);
        let pages = self.rescuer.rescue_and_report(&*self.shared.store, &mut died);
        let report = with_timeout(CALL_TIMEOUT * 6, "rescue", pages).await?;
        if report.rescued > 0 {
            info!("rescued {} jobs whose lease had expired", report.rescued);
        }
        if let Some(from) = report.clock_set_back_from {
            warn!("the store's clock was set back; jobs that were ready at {from} stay ready");
        }
        Ok(())
    }
}

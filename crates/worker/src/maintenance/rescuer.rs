//! Brings back jobs whose worker died.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::settle::expired::{self, RescuedDeath};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::jittered;
use crate::deadline::{ANSWER, within};
use crate::station::Station;

/// How often to look at most: a dead worker's jobs run again within a second of their lease's end, and the
/// looking alone stays well under two commands a second.
const TICK: Duration = Duration::from_millis(900);

/// Looks for leases that have run out, in all queues of the store at once.
pub(crate) struct Rescuer {
    station: Arc<Station>,
    rescuer: expired::Rescuer,
}

impl Rescuer {
    pub(crate) fn new(station: Arc<Station>) -> Self {
        let rescuer = expired::Rescuer::new(station.queues(), station.manner.lease);
        Self { station, rescuer }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.rescue_for_ever()).await;
    }

    async fn rescue_for_ever(&mut self) {
        let mut outage = self.station.outage("rescuing jobs of dead workers");
        loop {
            match self.look().await {
                Ok(()) => {
                    outage.is_over();
                    self.station.store.clock().sleep(jittered(TICK.min(self.station.beat()))).await;
                }
                Err(error) => tokio::time::sleep(outage.failed(&error)).await,
            }
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        // Page after page: after a mass death there are many, so this gets longer than one answer.
        let mut died = |death: RescuedDeath<'_>| self.station.failure_log.died_unattended(&death);
        let look = self.rescuer.look_and_report(&*self.station.store, &mut died);
        let looked = within(ANSWER * 6, "rescue", look).await?;
        if looked.rescued > 0 {
            info!("rescued {} jobs whose lease had run out", looked.rescued);
        }
        if let Some(from) = looked.set_back_from {
            warn!("the store's clock was set back; jobs that were ready at {from} stay ready");
        }
        Ok(())
    }
}

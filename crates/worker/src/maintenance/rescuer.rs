//! Brings back jobs whose worker died.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::rescue::rescue;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::jittered;
use crate::deadline::{ANSWER, within};
use crate::lane::Lane;
use crate::station::Station;

/// How often to look at most: a dead worker's jobs run again within a second of their lease's end, and the
/// looking alone stays well under two commands a second.
const TICK: Duration = Duration::from_millis(900);

/// Looks for leases that have run out.
pub(crate) struct Rescuer {
    station: Arc<Station>,
    /// The queue whose turn it is.
    turn: usize,
}

impl Rescuer {
    pub(crate) fn new(station: Arc<Station>) -> Self {
        Self { station, turn: 0 }
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

    /// Looks at every queue while there is work, and at one after the other while there is none: an idle
    /// worker must not cost the store more the more queues it serves.
    async fn look(&mut self) -> Result<(), Error> {
        let lanes = self.station.lanes.clone();
        let looks = if self.station.leases.count() > 0 { lanes.len() } else { 1 };
        for _ in 0..looks {
            self.turn = (self.turn + 1) % lanes.len();
            self.rescue(&lanes[self.turn]).await?;
        }
        Ok(())
    }

    async fn rescue(&self, lane: &Lane) -> Result<(), Error> {
        let Station { store, manner, .. } = &*self.station;
        // Page after page: after a mass death there are many, so this gets longer than one answer.
        let rescued = within(ANSWER * 6, "rescue", rescue(&**store, &lane.queue, manner.lease)).await?;
        if rescued > 0 {
            info!(queue = %lane.queue, "rescued {rescued} jobs whose lease had run out");
        }
        Ok(())
    }
}

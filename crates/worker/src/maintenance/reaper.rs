//! Takes the dead off the fleet's roster.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::jittered;
use crate::deadline::{ANSWER, within};
use crate::station::Station;

const PERIOD: Duration = Duration::from_secs(60);

/// Reaps once a minute. It enters nobody: what members of other programs may do is for gateways to say, which were told.
pub(crate) struct Reaper {
    station: Arc<Station>,
}

impl Reaper {
    pub(crate) fn new(station: Arc<Station>) -> Self {
        Self { station }
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.reap_for_ever()).await;
    }

    async fn reap_for_ever(&self) {
        let mut outage = self.station.outage("taking the dead off the fleet's roster");
        loop {
            self.station.store.clock().sleep(jittered(PERIOD)).await;
            match within(ANSWER, "reap", self.station.store.fleet().reap(None)).await {
                Ok(reaped) => {
                    outage.is_over();
                    reaped
                        .members
                        .iter()
                        .for_each(|member| info!(%member, "taken off the fleet's roster: it is dead"));
                }
                // The next round is soon enough.
                Err(error) => drop(outage.failed(&error)),
            }
        }
    }
}

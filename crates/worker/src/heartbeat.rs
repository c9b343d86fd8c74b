//! Keeps every lease in this worker's hands alive, and learns from it what was lost or cancelled.

use std::sync::Arc;

use tidemill_core::store::{Extend, Held};
use tidemill_core::{Error, Lease};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::assignment::{Assignment, Why};
use crate::deadline::{ANSWER, within};
use crate::outage::Outage;
use crate::station::Station;

/// The most leases in one trip.
const BATCH: usize = 512;

/// Extends the leases of running, buffered and unsettled jobs. The last part of a worker to stop.
pub(crate) struct Heartbeat {
    station: Arc<Station>,
}

impl Heartbeat {
    pub(crate) fn new(station: Arc<Station>) -> Self {
        Self { station }
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.beat_for_ever()).await;
    }

    async fn beat_for_ever(&self) {
        let mut outage = Outage::of("extending leases");
        loop {
            self.station.store.clock().sleep(self.station.beat()).await;
            // After a failure everything is extended again, not only the rest: meanwhile jobs have ended.
            while let Err(error) = self.extend_all().await {
                tokio::time::sleep(outage.failed(&error)).await;
            }
            outage.is_over();
        }
    }

    async fn extend_all(&self) -> Result<(), Error> {
        for batch in self.station.leases.held().chunks(BATCH) {
            let leases: Vec<Lease> = batch.iter().map(|job| job.lease.clone()).collect();
            let extend =
                Extend { worker: &self.station.worker, leases: &leases, lease: self.station.manner.lease };
            let limit = ANSWER.min(self.station.beat());
            let held = within(limit, "extend", self.station.store.extend(extend)).await?;
            batch.iter().zip(held).for_each(|(job, held)| heed(job, held));
        }
        Ok(())
    }
}

fn heed(job: &Assignment, held: Held) {
    match held {
        Held::Yes => {}
        Held::Cancelling => job.stop.request(Why::Cancelled),
        Held::Lost => {
            warn!(job = %job.lease.job, queue = %job.lease.queue, "lost the lease; its handler is stopped");
            job.stop.request(Why::Lost);
        }
    }
}

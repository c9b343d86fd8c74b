//! Keeps every lease in this worker's hands alive, and learns from it what was lost or cancelled.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{Extend, Held};
use tidemill_core::{Error, Lease};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::assignment::{Assignment, Why};
use crate::deadline::{ANSWER, within};
use crate::rechecks::Rechecks;
use crate::station::Station;

/// The shortest pause between two beats.
const HURRIED: Duration = Duration::from_millis(500);

/// The shortest pause between two rechecks, however often somebody publishes the name of a running job.
const RECHECK_PAUSE: Duration = Duration::from_millis(20);

/// The most leases in one trip.
const BATCH: usize = 512;

/// Extends the leases of running, buffered and unsettled jobs. The last part of a worker to stop.
pub(crate) struct Heartbeat {
    station: Arc<Station>,
    /// Told when something may have been cancelled that nobody named.
    hurry: Arc<Notify>,
    /// The jobs that a wake-up has named.
    rechecks: Arc<Rechecks>,
}

impl Heartbeat {
    pub(crate) fn new(station: Arc<Station>, hurry: Arc<Notify>, rechecks: Arc<Rechecks>) -> Self {
        Self { station, hurry, rechecks }
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let both = async { tokio::join!(self.beat_for_ever(), self.recheck_for_ever()) };
        shutdown.run_until_cancelled(both).await;
    }

    async fn beat_for_ever(&self) {
        let mut outage = self.station.outage("extending leases");
        loop {
            self.pause().await;
            self.station.failure_log.report_omitted();
            // After a failure everything is extended again, not only the rest: meanwhile jobs have ended.
            while let Err(error) = self.extend(self.station.leases.held()).await {
                tokio::time::sleep(outage.failed(&error)).await;
            }
            outage.is_over();
        }
    }

    /// Asks the store about jobs that a wake-up has named. Beside the beats, so that a beat that hangs or is late
    /// does not hold up a cancellation.
    async fn recheck_for_ever(&self) {
        let mut outage = self.station.outage("asking whether jobs were cancelled");
        loop {
            let jobs = self.rechecks.take().await;
            while let Err(error) = self.extend(self.station.leases.held_of(&jobs)).await {
                tokio::time::sleep(outage.failed(&error)).await;
            }
            outage.is_over();
            tokio::time::sleep(RECHECK_PAUSE).await;
        }
    }

    /// Waits for the next beat. One that is hurried still comes no sooner than a moment after the last: a store
    /// that shares its file with busy writers hurries all the time.
    async fn pause(&self) {
        let beat = self.station.beat();
        let clock = self.station.store.clock();
        tokio::select! {
            () = clock.sleep(beat) => {}
            () = async {
                tokio::time::sleep(HURRIED.min(beat)).await;
                self.hurry.notified().await;
            } => {}
        }
    }

    async fn extend(&self, held: Vec<Arc<Assignment>>) -> Result<(), Error> {
        for batch in held.chunks(BATCH) {
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
        // Its own settlement or transaction has ended it, and says so in a moment.
        Held::Lost if job.stop.is_ending() => {}
        Held::Cancelling => job.stop.request(Why::Cancelled),
        Held::Lost => {
            warn!(job = %job.lease.job, queue = %job.lease.queue, "lost the lease; its handler is stopped");
            job.stop.request(Why::Lost);
        }
    }
}

//! Keeps every lease in this worker's hands alive, and learns from it what was lost or cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use tidemill_core::store::{ExtendParams, Extended};
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

/// How many trips are under way at once.
const AT_ONCE: usize = 4;

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
            let (mut held, mut begun) = (self.station.leases.held(), Instant::now());
            while let Err((in_doubt, error)) = self.extend(held).await {
                tokio::time::sleep(outage.failed(&error)).await;
                // Those that were answered are extended again with the next beat, even if the others still fail then.
                let is_due = begun.elapsed() >= self.station.beat();
                begun = if is_due { Instant::now() } else { begun };
                held = if is_due {
                    self.station.leases.held()
                } else {
                    self.station.leases.still_held(&in_doubt)
                };
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
            let mut held = self.station.leases.held_of(&jobs);
            while let Err((in_doubt, error)) = self.extend(held).await {
                tokio::time::sleep(outage.failed(&error)).await;
                held = self.station.leases.still_held(&in_doubt);
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

    /// Extends leases, some batches at once: one that fails or hangs must not keep others from being extended. Returns
    /// those of which nothing is known.
    async fn extend(&self, held: Vec<Arc<Assignment>>) -> Result<(), (Vec<Arc<Assignment>>, Error)> {
        let batches: Vec<_> =
            held.chunks(BATCH).map(<[_]>::to_vec).map(|batch| self.extend_batch(batch)).collect();
        let mut answers = stream::iter(batches).buffered(AT_ONCE);
        let (mut in_doubt, mut failure) = (Vec::new(), None);
        while let Some(answer) = answers.next().await {
            if let Err((jobs, error)) = answer {
                in_doubt.extend(jobs);
                failure = Some(error);
            }
        }
        failure.map_or(Ok(()), |error| Err((in_doubt, error)))
    }

    async fn extend_batch(&self, batch: Vec<Arc<Assignment>>) -> Result<(), (Vec<Arc<Assignment>>, Error)> {
        let leases: Vec<Lease> = batch.iter().map(|job| job.lease.clone()).collect();
        let extend =
            ExtendParams { worker: &self.station.worker, leases: &leases, lease: self.station.manner.lease };
        let limit = ANSWER.min(self.station.beat());
        let held = within(limit, "extend", self.station.store.extend(extend)).await;
        let held = match held {
            Ok(held) => held,
            Err(error) => return Err((batch, error)),
        };
        batch.iter().zip(&held).for_each(|(job, held)| heed(job, *held));
        let unknown = batch.iter().zip(&held).filter(|(_, held)| **held == Extended::Unknown);
        let in_doubt: Vec<_> = unknown.map(|(job, _)| job.clone()).collect();
        match in_doubt.len() {
            0 => Ok(()),
            count => {
                let message = format!("a part of the store gave no answer about {count} leases");
                Err((in_doubt, Error::Unanswered { message, source: None }))
            }
        }
    }
}

fn heed(job: &Assignment, held: Extended) {
    match held {
        // Unknown: it is asked for again. Whoever runs the job is stopped only by the store's word.
        Extended::Yes | Extended::Unknown => {}
        // Its own settlement or transaction has ended it, and says so in a moment.
        Extended::Lost if job.stop.is_ending() => {}
        Extended::Cancelling => job.stop.request(Why::Cancelled),
        Extended::Lost => {
            warn!(job = %job.lease.job, queue = %job.lease.queue, "lost the lease; its handler is stopped");
            job.stop.request(Why::Lost);
        }
    }
}

//! The heartbeat: extends every lease that this worker holds, and detects lost and cancelled jobs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tidemill_core::store::{ExtendParams, Extended};
use tidemill_core::{Error, Lease};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::leases::{ClaimedJob, StopReason};
use crate::rechecks::Rechecks;
use crate::shared::WorkerShared;

/// The minimum interval between two rounds of extensions.
const MIN_EXTEND_INTERVAL: Duration = Duration::from_millis(500);

/// The minimum interval between two rechecks, however often wake-ups name running jobs.
const RECHECK_PAUSE: Duration = Duration::from_millis(20);

/// The maximum number of leases in one call.
const MAX_BATCH_LEASES: usize = 512;

/// The maximum number of concurrent calls.
const MAX_CONCURRENT_BATCHES: usize = 4;

/// Extends the leases of running, buffered and unsettled jobs. The last part of a worker to stop.
pub(crate) struct Heartbeat {
    shared: Arc<WorkerShared>,
    /// Notified when any job may have been cancelled, without naming one.
    extend_now: Arc<Notify>,
    /// The jobs that wake-ups have named.
    rechecks: Arc<Rechecks>,
}

impl Heartbeat {
    pub(crate) fn new(shared: Arc<WorkerShared>, extend_now: Arc<Notify>, rechecks: Arc<Rechecks>) -> Self {
        Self { shared, extend_now, rechecks }
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let both = async { tokio::join!(self.extend_loop(), self.recheck_loop()) };
        shutdown.run_until_cancelled(both).await;
    }

    async fn extend_loop(&self) {
        let mut backoff = self.shared.backoff("extending leases");
        loop {
            self.pause().await;
            self.shared.failure_log.report_omitted();
            let (mut held, mut started_at) = (self.shared.leases.held(), Instant::now());
            while let Err((unknown, error)) = self.extend(held).await {
                tokio::time::sleep(backoff.record_failure(&error)).await;
                // Leases that were extended are due again after one interval, even while others
                // still fail.
                let is_due = started_at.elapsed() >= self.shared.heartbeat_interval();
                started_at = if is_due { Instant::now() } else { started_at };
                held =
                    if is_due { self.shared.leases.held() } else { self.shared.leases.still_held(&unknown) };
            }
            backoff.record_success();
        }
    }

    /// Checks jobs that a wake-up has named. Runs next to the regular extensions, so that a slow or
    /// late one does not delay a cancellation.
    async fn recheck_loop(&self) {
        let mut backoff = self.shared.backoff("checking whether jobs were cancelled");
        loop {
            let jobs = self.rechecks.take().await;
            let mut held = self.shared.leases.held_of(&jobs);
            while let Err((unknown, error)) = self.extend(held).await {
                tokio::time::sleep(backoff.record_failure(&error)).await;
                held = self.shared.leases.still_held(&unknown);
            }
            backoff.record_success();
            tokio::time::sleep(RECHECK_PAUSE).await;
        }
    }

    /// Waits for the next round. A notification shortens the wait only to a minimum: a store in a
    /// file with busy writers notifies continuously.
    async fn pause(&self) {
        let beat = self.shared.heartbeat_interval();
        let clock = self.shared.store.clock();
        tokio::select! {
            () = clock.sleep(beat) => {}
            () = async {
                tokio::time::sleep(MIN_EXTEND_INTERVAL.min(beat)).await;
                self.extend_now.notified().await;
            } => {}
        }
    }

    /// Extends leases in concurrent batches, so that one that fails or hangs does not delay the
    /// others. Returns the leases whose state is unknown.
    async fn extend(&self, held: Vec<Arc<ClaimedJob>>) -> Result<(), (Vec<Arc<ClaimedJob>>, Error)> {
        let batches: Vec<_> =
            held.chunks(MAX_BATCH_LEASES).map(<[_]>::to_vec).map(|batch| self.extend_batch(batch)).collect();
        let mut answers = stream::iter(batches).buffered(MAX_CONCURRENT_BATCHES);
        let (mut unknown, mut failure) = (Vec::new(), None);
        while let Some(answer) = answers.next().await {
            if let Err((jobs, error)) = answer {
                unknown.extend(jobs);
                failure = Some(error);
            }
        }
        failure.map_or(Ok(()), |error| Err((unknown, error)))
    }

    async fn extend_batch(&self, batch: Vec<Arc<ClaimedJob>>) -> Result<(), (Vec<Arc<ClaimedJob>>, Error)> {
        let leases: Vec<Lease> = batch.iter().map(|job| job.lease.clone()).collect();
        let extend =
            ExtendParams { worker: &self.shared.worker, leases: &leases, lease: self.shared.config.lease };
        let limit = CALL_TIMEOUT.min(self.shared.heartbeat_interval());
        let held_until = Instant::now().checked_add(self.shared.config.lease);
        let held = with_timeout(limit, "extend", self.shared.store.extend(extend)).await;
        let held = match held {
            Ok(held) => held,
            Err(error) => return Err((batch, error)),
        };
        batch.iter().zip(&held).for_each(|(job, held)| apply(job, *held, held_until));
        let unknown = batch.iter().zip(&held).filter(|(_, held)| **held == Extended::Unknown);
        let unknown: Vec<_> = unknown.map(|(job, _)| job.clone()).collect();
        match unknown.len() {
            0 => Ok(()),
            count => {
                let message = format!("a shard of the store did not answer for {count} leases");
                Err((unknown, Error::Unanswered { message, source: None }))
            }
        }
    }
}

fn apply(job: &ClaimedJob, held: Extended, held_until: Option<Instant>) {
    match held {
        Extended::Yes => job.extend_held_until(held_until),
        // The lease is extended again later. Only an answer of the store stops a handler.
        Extended::Unknown => {}
        // The job's own settlement or transaction has ended it; its verdict follows.
        Extended::Lost if job.stop.is_settling() => {}
        Extended::Cancelling => {
            job.extend_held_until(held_until);
            job.stop.request(StopReason::Cancelled);
        }
        Extended::Lost => {
            warn!(job = %job.lease.job, queue = %job.lease.queue, "lost the lease; stopping its handler");
            job.stop.request(StopReason::LeaseLost);
        }
    }
}

//! A producer's calls to the store, each a future that owns what it needs.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{
    ClaimParams, Claimed, ExtendParams, Extended, RecoverParams, StartParams, Verdict,
};
use tidemill_core::{Error, Lease};
use tokio_util::sync::CancellationToken;

use crate::deadline::{ANSWER, within};
use crate::lane::Lane;
use crate::station::Station;

/// How long a claim waits for work in a worker with one queue.
const WAIT: Duration = Duration::from_secs(5);

/// So much longer for each further queue, so that all claims of an idle worker together stay under one
/// command in three seconds.
const WAIT_PER_QUEUE: Duration = Duration::from_secs(3);

/// How long found jobs wait for their leases to be extended. A worker that leaves does not wait much longer for all of it.
const EXTENSION: Duration = Duration::from_secs(1);

/// A call under way.
pub(crate) type Trip<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// What a claim asks for.
pub(crate) struct Wanted {
    /// How many jobs.
    pub(crate) max: usize,
    /// How many of them start at once.
    pub(crate) starting: usize,
    /// How long it waits at most, if that is not for the caller's setting alone to say.
    pub(crate) at_most: Option<Duration>,
}

/// Makes the calls of one producer.
pub(crate) struct Caller {
    station: Arc<Station>,
    lane: Arc<Lane>,
    shutdown: CancellationToken,
    wait: Duration,
}

impl Caller {
    pub(crate) fn new(station: Arc<Station>, lane: Arc<Lane>, shutdown: CancellationToken) -> Self {
        let others = u32::try_from(station.lanes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = WAIT.saturating_add(WAIT_PER_QUEUE.saturating_mul(others));
        let wait = station.manner.block.unwrap_or(wait);
        Self { station, lane, shutdown, wait }
    }

    /// Claims jobs, and waits for some.
    pub(crate) fn claim(&self, wanted: Wanted) -> Trip<Vec<Claimed>> {
        let (station, lane, shutdown) = (self.station.clone(), self.lane.clone(), self.shutdown.clone());
        let Wanted { max, starting, at_most } = wanted;
        let wait = at_most.map_or(self.wait, |at_most| at_most.min(self.wait));
        let mut interrupted = lane.claims.begin();
        Box::pin(async move {
            // Dropping a claim may strand a job. So one that takes too long is first asked to end.
            let patience = wait + ANSWER;
            let interrupt = Box::pin(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    _ = interrupted.changed() => {}
                    () = tokio::time::sleep(patience) => {}
                }
            });
            let (queue, worker, lease) = (&lane.queue, &station.worker, station.manner.lease);
            let claim = ClaimParams { queue, worker, lease, max, starting, wait, interrupt };
            within(patience + ANSWER, "claim", station.store.claim(claim)).await
        })
    }

    /// Finds what a failed claim has taken, and extends its leases: what is still held then is this worker's to run. If nobody
    /// knows whether it is, it is so too: the store has handed the jobs over and may not find them again. What was lost turns out
    /// when it is to start.
    pub(crate) fn recover(&self, known: HashSet<Lease>) -> Trip<Vec<Claimed>> {
        let (station, lane) = (self.station.clone(), self.lane.clone());
        Box::pin(async move {
            let (queue, worker, lease) = (&lane.queue, &station.worker, station.manner.lease);
            let recover = RecoverParams { queue, worker, lease, known: &known };
            let mut found = within(ANSWER, "recover", station.store.recover(recover)).await?;
            let leases: Vec<Lease> = found.iter().map(|claimed| claimed.lease.clone()).collect();
            if leases.is_empty() {
                return Ok(found);
            }
            let extend = ExtendParams { worker, leases: &leases, lease };
            if let Ok(held) = within(EXTENSION, "extend", station.store.extend(extend)).await {
                let mut held = held.into_iter();
                found.retain(|_| held.next().is_some_and(|held| held != Extended::Lost));
            }
            Ok(found)
        })
    }

    /// Marks held jobs as started.
    pub(crate) fn start(&self, leases: Vec<Lease>) -> Trip<Vec<Verdict>> {
        let station = self.station.clone();
        Box::pin(async move {
            let start = StartParams { worker: &station.worker, leases: &leases };
            within(ANSWER, "start", station.store.start(start)).await
        })
    }
}

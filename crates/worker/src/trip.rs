//! A producer's calls to the store, each a future that owns what it needs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{Claim, Claimed, Start, Verdict};
use tidemill_core::{Error, Lease};
use tokio_util::sync::CancellationToken;

use crate::deadline::{ANSWER, within};
use crate::lane::Lane;
use crate::station::Station;

/// How long a claim waits for work in a worker with one queue.
const WAIT: Duration = Duration::from_secs(5);

/// So much longer for each further queue, so that all claims of an idle worker together stay under one
/// command in two seconds.
const WAIT_PER_QUEUE: Duration = Duration::from_secs(2);

/// A call under way.
pub(crate) type Trip<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

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

    /// Claims up to `max` jobs, the first `starting` of which start at once.
    pub(crate) fn claim(&self, max: usize, starting: usize) -> Trip<Vec<Claimed>> {
        let (station, lane, shutdown, wait) =
            (self.station.clone(), self.lane.clone(), self.shutdown.clone(), self.wait);
        Box::pin(async move {
            // Dropping a claim may strand a job. So one that takes too long is first asked to end.
            let patience = wait + ANSWER;
            let interrupt = Box::pin(async move {
                let _ = tokio::time::timeout(patience, shutdown.cancelled()).await;
            });
            let (queue, worker, lease) = (&lane.queue, &station.worker, station.manner.lease);
            let claim = Claim { queue, worker, lease, max, starting, wait, interrupt };
            within(patience + ANSWER, "claim", station.store.claim(claim)).await
        })
    }

    /// Marks held jobs as started.
    pub(crate) fn start(&self, leases: Vec<Lease>) -> Trip<Vec<Verdict>> {
        let station = self.station.clone();
        Box::pin(async move {
            let start = Start { worker: &station.worker, leases: &leases };
            within(ANSWER, "start", station.store.start(start)).await
        })
    }
}

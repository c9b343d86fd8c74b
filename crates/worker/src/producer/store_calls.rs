//! A producer's store calls, each a future that owns its arguments.

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

use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::queue_slots::QueueSlots;
use crate::shared::WorkerShared;

/// How long a claim waits for jobs in a worker with one queue.
const CLAIM_WAIT: Duration = Duration::from_secs(5);

/// Additional wait per further queue, so that all claims of an idle worker together stay below one
/// command in three seconds.
const CLAIM_WAIT_PER_QUEUE: Duration = Duration::from_secs(3);

/// The time limit for extending the leases of recovered jobs. Kept short, because a shutdown waits
/// for it.
const EXTEND_RECOVERED_TIMEOUT: Duration = Duration::from_secs(1);

/// A pending store call.
pub(crate) type StoreCall<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The parameters of a claim.
pub(crate) struct ClaimRequest {
    /// The maximum number of jobs.
    pub(crate) max: usize,
    /// How many of them start at once.
    pub(crate) starting: usize,
    /// An upper limit for the wait, below the configured one.
    pub(crate) max_wait: Option<Duration>,
}

/// Creates the store calls of one producer.
pub(crate) struct StoreCalls {
    shared: Arc<WorkerShared>,
    slots: Arc<QueueSlots>,
    shutdown: CancellationToken,
    wait: Duration,
}

impl StoreCalls {
    pub(crate) fn new(
        shared: Arc<WorkerShared>,
        slots: Arc<QueueSlots>,
        shutdown: CancellationToken,
    ) -> Self {
        let others = u32::try_from(shared.queue_slots.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = CLAIM_WAIT.saturating_add(CLAIM_WAIT_PER_QUEUE.saturating_mul(others));
        let wait = shared.config.block.unwrap_or(wait);
        Self { shared, slots, shutdown, wait }
    }

    /// Claims jobs, and waits for some.
    pub(crate) fn claim(&self, wanted: ClaimRequest) -> StoreCall<Vec<Claimed>> {
        let (shared, slots, shutdown) = (self.shared.clone(), self.slots.clone(), self.shutdown.clone());
        let ClaimRequest { max, starting, max_wait } = wanted;
        let wait = max_wait.map_or(self.wait, |max_wait| max_wait.min(self.wait));
        let mut interrupted = slots.claim_tracker.begin();
        Box::pin(async move {
            // Dropping a claim may lose track of jobs. So a claim that takes too long is first
            // interrupted.
            let time_limit = wait + CALL_TIMEOUT;
            let interrupt = Box::pin(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    _ = interrupted.changed() => {}
                    () = tokio::time::sleep(time_limit) => {}
                }
            });
            let (queue, worker, lease) = (&slots.queue, &shared.worker, shared.config.lease);
            let claim = ClaimParams { queue, worker, lease, max, starting, wait, interrupt };
            with_timeout(time_limit + CALL_TIMEOUT, "claim", shared.store.claim(claim)).await
        })
    }

    /// Finds the jobs of a failed claim and extends their leases. Jobs whose leases are still held
    /// belong to this worker. So do jobs whose leases are in an unknown state: the store has handed
    /// them out and may not return them again. Lost leases are detected at the start.
    pub(crate) fn recover(&self, known: HashSet<Lease>) -> StoreCall<Vec<Claimed>> {
        let (shared, slots) = (self.shared.clone(), self.slots.clone());
        Box::pin(async move {
            let (queue, worker, lease) = (&slots.queue, &shared.worker, shared.config.lease);
            let recover = RecoverParams { queue, worker, lease, known_leases: &known };
            let mut found = with_timeout(CALL_TIMEOUT, "recover", shared.store.recover(recover)).await?;
            let leases: Vec<Lease> = found.iter().map(|claimed| claimed.lease.clone()).collect();
            if leases.is_empty() {
                return Ok(found);
            }
            let extend = ExtendParams { worker, leases: &leases, lease };
            if let Ok(held) =
                with_timeout(EXTEND_RECOVERED_TIMEOUT, "extend", shared.store.extend(extend)).await
            {
                let mut held = held.into_iter();
                found.retain(|_| held.next().is_some_and(|held| held != Extended::Lost));
            }
            Ok(found)
        })
    }

    /// Marks held jobs as started.
    pub(crate) fn start(&self, leases: Vec<Lease>) -> StoreCall<Vec<Verdict>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let start = StartParams { worker: &shared.worker, leases: &leases };
            with_timeout(CALL_TIMEOUT, "start", shared.store.start(start)).await
        })
    }
}

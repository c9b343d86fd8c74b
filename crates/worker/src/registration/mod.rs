//! The registration of a worker in the fleet: it joins, sends beats, receives drain orders, and
//! leaves.
//!
//! No failure here stops the worker. If the store is unavailable or has no fleet, the worker is not
//! listed, but its jobs run.

pub(crate) mod detail;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::Error;
use tidemill_core::fleet::{Capacity, Offer, WorkerKey, WorkerKind, WorkerName};
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerOrders, WorkerStatus};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::deadline::with_timeout;
use crate::registration::detail::WorkerDetail;
use crate::shared::WorkerShared;

/// The interval of beats, which renew the worker's entry.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);

/// How long the entry is valid after a beat: two beats may be lost.
const ENTRY_TTL: Duration = Duration::from_secs(15);

/// The time limit for leaving the fleet at shutdown.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The minimum interval between reads of orders after wake-ups that name no worker.
const MIN_ORDERS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Wakes the registration between two beats.
#[derive(Debug, Default)]
pub(crate) struct RegistrationWakes {
    /// This worker received an order.
    pub(crate) orders: Notify,
    /// Wake-ups may have been missed.
    pub(crate) everything: Notify,
}

/// Keeps a worker's entry in the fleet.
pub(crate) struct Registration {
    shared: Arc<WorkerShared>,
    id: WorkerKey,
    detail: WorkerDetail,
    wakes: Arc<RegistrationWakes>,
    /// Cancelled when the worker stops claiming.
    draining: CancellationToken,
    /// Cancelled when the fleet orders the worker to drain.
    drain_ordered: CancellationToken,
}

/// Why a pause has ended.
enum PauseEnd {
    Beat,
    WorkerTasks,
}

impl Registration {
    pub(crate) fn new(
        shared: Arc<WorkerShared>,
        id: WorkerKey,
        detail: WorkerDetail,
        wakes: Arc<RegistrationWakes>,
        draining: CancellationToken,
    ) -> Self {
        Self { shared, id, detail, wakes, draining, drain_ordered: CancellationToken::new() }
    }

    /// The key of a worker in the fleet.
    pub(crate) fn worker_key(shared: &WorkerShared) -> Option<WorkerKey> {
        let name = WorkerName::new(shared.worker.as_str()).ok()?;
        Some(WorkerKey { kind: WorkerKind::jobs(), name })
    }

    /// Cancelled when the fleet orders the worker to drain.
    pub(crate) fn drain_ordered(&self) -> CancellationToken {
        self.drain_ordered.clone()
    }

    /// Runs until `end` is cancelled, then leaves the fleet. A pending call is never dropped,
    /// because it might take effect after the worker has left.
    pub(crate) async fn run(self, end: CancellationToken) {
        let mut backoff = self.shared.backoff("registering this worker in the fleet");
        let mut joined = false;
        loop {
            let was_draining = self.draining.is_cancelled();
            let pause = match self.announce(joined).await {
                Ok(orders) => {
                    joined = true;
                    backoff.record_success();
                    self.apply_orders(orders);
                    BEAT_INTERVAL
                }
                Err(error) if error.is_unavailable() => backoff.record_failure(&error),
                Err(error) => backoff.record_failure(&error).max(BEAT_INTERVAL),
            };
            if let PauseEnd::WorkerTasks = self.pause(pause, was_draining, &end).await {
                break;
            }
        }
        if joined {
            self.leave().await;
        }
    }

    /// Joins or renews the entry. Each call sends the whole entry, which restores it in a store
    /// that has lost its data.
    async fn announce(&self, joined: bool) -> Result<Option<WorkerOrders>, Error> {
        let (members, fleet) = ([self.member()], &self.shared.store);
        if !joined {
            with_timeout(BEAT_INTERVAL, "join", fleet.join(&members)).await?;
            return Ok(None);
        }
        // A job worker has no sessions, so their holders need no time to renew them.
        let beat = BeatParams { workers: &members, grace: Duration::ZERO };
        let orders = with_timeout(BEAT_INTERVAL, "beat", fleet.beat(beat)).await?;
        Ok(orders.first().copied())
    }

    fn member(&self) -> WorkerEntry {
        let draining = self.draining.is_cancelled();
        WorkerEntry {
            id: self.id.clone(),
            offer: Offer::jobs(),
            endpoint: String::new(),
            status: if draining { WorkerStatus::Draining } else { WorkerStatus::Available },
            capacity: Capacity { concurrent: 0, lifetime: 0 },
            beat_timeout: ENTRY_TTL,
            detail: Bytes::from(self.detail.write(&self.shared)),
        }
    }

    fn apply_orders(&self, orders: Option<WorkerOrders>) {
        if orders.is_some_and(|orders| orders.drain) && !self.draining.is_cancelled() {
            info!(worker = %self.shared.worker, "ordered to drain: the worker stops claiming");
            self.drain_ordered.cancel();
        }
    }

    /// Waits for the next beat. The start of draining triggers one, so that others know at once.
    async fn pause(&self, pause: Duration, was_draining: bool, end: &CancellationToken) -> PauseEnd {
        let mut over = self.shared.store.clock().sleep(pause);
        loop {
            tokio::select! {
                () = end.cancelled() => return PauseEnd::WorkerTasks,
                () = &mut over => return PauseEnd::Beat,
                () = self.wakes.orders.notified() => return PauseEnd::Beat,
                () = self.draining.cancelled(), if !was_draining => return PauseEnd::Beat,
                () = self.wait_for_missed_wake() => if self.needs_beat().await { return PauseEnd::Beat },
            }
        }
    }

    /// Completes when wake-ups may have been missed, at a limited rate: a store in a file with busy
    /// writers reports this at each write.
    async fn wait_for_missed_wake(&self) {
        tokio::time::sleep(MIN_ORDERS_CHECK_INTERVAL).await;
        self.wakes.everything.notified().await;
    }

    /// Whether this worker has an order or no entry. Only reads: if workers wrote a beat for every
    /// write of another, each would wake all the others.
    async fn needs_beat(&self) -> bool {
        match with_timeout(BEAT_INTERVAL, "get_worker", self.shared.store.get_worker(&self.id)).await {
            Ok(info) => info.is_none_or(|info| info.drain_ordered),
            Err(_) => false,
        }
    }

    async fn leave(&self) {
        let members = [self.id.clone()];
        if let Err(error) = with_timeout(LEAVE_TIMEOUT, "part", self.shared.store.part(&members)).await {
            debug!("the worker stays listed in the fleet until its entry expires: {}", error.full_message());
        }
    }
}

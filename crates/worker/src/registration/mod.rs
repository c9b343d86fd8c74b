//! Keeps the worker on the fleet's roster: it joins, says that it lives, hears whether it is to go, and leaves.
//!
//! Nothing here is fatal. A store that is away, or knows no fleet, costs the worker its place on the roster and no job.

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

/// How often a worker says that it lives.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);

/// How long after its last word it is taken for dead: two words may be lost.
const ENTRY_TTL: Duration = Duration::from_secs(15);

/// How long the worker's end may wait for a store that does not answer.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The shortest time between two looks at orders, when it is not known what has changed.
const MIN_ORDERS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What wakes a roster between two beats.
#[derive(Debug, Default)]
pub(crate) struct RegistrationWakes {
    /// This member was ordered something.
    pub(crate) orders: Notify,
    /// Something may have been missed.
    pub(crate) everything: Notify,
}

/// A worker's entry in the fleet.
pub(crate) struct Registration {
    shared: Arc<WorkerShared>,
    id: WorkerKey,
    detail: WorkerDetail,
    wakes: Arc<RegistrationWakes>,
    /// Cancelled when the worker claims no more.
    draining: CancellationToken,
    /// Cancelled when the worker is ordered to go.
    drain_ordered: CancellationToken,
}

/// Why a pause is over.
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

    /// Who a worker is to the fleet.
    pub(crate) fn worker_key(shared: &WorkerShared) -> Option<WorkerKey> {
        let name = WorkerName::new(shared.worker.as_str()).ok()?;
        Some(WorkerKey { kind: WorkerKind::jobs(), name })
    }

    /// Cancelled when the worker is ordered to go.
    pub(crate) fn drain_ordered(&self) -> CancellationToken {
        self.drain_ordered.clone()
    }

    /// Runs until `end`, and leaves. A call under way is never dropped: it might take effect after the leaving.
    pub(crate) async fn run(self, end: CancellationToken) {
        let mut backoff = self.shared.backoff("keeping this worker on the fleet's roster");
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

    /// Joins, or says that it lives: each time everything about itself, so that a store that lost its data has it again.
    async fn announce(&self, joined: bool) -> Result<Option<WorkerOrders>, Error> {
        let (members, fleet) = ([self.member()], self.shared.store.fleet());
        if !joined {
            with_timeout(BEAT_INTERVAL, "join", fleet.join(&members)).await?;
            return Ok(None);
        }
        // It takes no sessions, so nobody has to be given time to say what they hold.
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
            info!(worker = %self.shared.worker, "ordered to go: nothing more is claimed");
            self.drain_ordered.cancel();
        }
    }

    /// Waits for the next beat. The first moment of draining is one: others should know at once.
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

    /// Completes when something may have been missed, but not all the time: a store that shares its file with busy
    /// writers says so at each of their writes.
    async fn wait_for_missed_wake(&self) {
        tokio::time::sleep(MIN_ORDERS_CHECK_INTERVAL).await;
        self.wakes.everything.notified().await;
    }

    /// Whether there is an order for this member, or no entry of it. Reads only: of workers that beat because others have
    /// written, each would call all the others.
    async fn needs_beat(&self) -> bool {
        match with_timeout(BEAT_INTERVAL, "member", self.shared.store.fleet().get_worker(&self.id)).await {
            Ok(info) => info.is_none_or(|info| info.drain_ordered),
            Err(_) => false,
        }
    }

    async fn leave(&self) {
        let members = [self.id.clone()];
        if let Err(error) =
            with_timeout(LEAVE_TIMEOUT, "part", self.shared.store.fleet().part(&members)).await
        {
            debug!("the worker stays on the roster until it is taken for dead: {}", error.full_message());
        }
    }
}

//! Keeps the worker on the fleet's roster: it joins, says that it lives, hears whether it is to go, and leaves.
//!
//! Nothing here is fatal. A store that is away, or knows no fleet, costs the worker its place on the roster and no job.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::Error;
use tidemill_core::fleet::{Capacity, MemberName, Offer, WorkerKey, WorkerKind};
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerOrders, WorkerStatus};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::card::Card;
use crate::deadline::within;
use crate::station::Station;

/// How often a worker says that it lives.
const BEAT: Duration = Duration::from_secs(5);

/// How long after its last word it is taken for dead: two words may be lost.
const FRESH: Duration = Duration::from_secs(15);

/// How long the worker's end may wait for a store that does not answer.
const GOODBYE: Duration = Duration::from_secs(1);

/// The shortest time between two looks at orders, when it is not known what has changed.
const GLANCE: Duration = Duration::from_secs(1);

/// What wakes a roster between two beats.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// This member was ordered something.
    pub(crate) member: Notify,
    /// Something may have been missed.
    pub(crate) something: Notify,
}

/// A worker's entry in the fleet.
pub(crate) struct Roster {
    station: Arc<Station>,
    id: WorkerKey,
    card: Card,
    calls: Arc<Calls>,
    /// Cancelled when the worker claims no more.
    draining: CancellationToken,
    /// Cancelled when the worker is ordered to go.
    ordered: CancellationToken,
}

/// Why a pause is over.
enum Next {
    Beat,
    End,
}

impl Roster {
    pub(crate) fn new(
        station: Arc<Station>,
        id: WorkerKey,
        card: Card,
        calls: Arc<Calls>,
        draining: CancellationToken,
    ) -> Self {
        Self { station, id, card, calls, draining, ordered: CancellationToken::new() }
    }

    /// Who a worker is to the fleet.
    pub(crate) fn name(station: &Station) -> Option<WorkerKey> {
        let name = MemberName::new(station.worker.as_str()).ok()?;
        Some(WorkerKey { kind: WorkerKind::jobs(), name })
    }

    /// Cancelled when the worker is ordered to go.
    pub(crate) fn ordered(&self) -> CancellationToken {
        self.ordered.clone()
    }

    /// Runs until `end`, and leaves. A call under way is never dropped: it might take effect after the leaving.
    pub(crate) async fn run(self, end: CancellationToken) {
        let mut outage = self.station.outage("keeping this worker on the fleet's roster");
        let mut joined = false;
        loop {
            let said = self.draining.is_cancelled();
            let pause = match self.speak(joined).await {
                Ok(orders) => {
                    joined = true;
                    outage.is_over();
                    self.obey(orders);
                    BEAT
                }
                Err(error) if error.is_unavailable() => outage.failed(&error),
                Err(error) => outage.failed(&error).max(BEAT),
            };
            if let Next::End = self.pause(pause, said, &end).await {
                break;
            }
        }
        if joined {
            self.leave().await;
        }
    }

    /// Joins, or says that it lives: each time everything about itself, so that a store that lost its data has it again.
    async fn speak(&self, joined: bool) -> Result<Option<WorkerOrders>, Error> {
        let (members, fleet) = ([self.member()], self.station.store.fleet());
        if !joined {
            within(BEAT, "join", fleet.join(&members)).await?;
            return Ok(None);
        }
        // It takes no sessions, so nobody has to be given time to say what they hold.
        let beat = BeatParams { members: &members, grace: Duration::ZERO };
        let orders = within(BEAT, "beat", fleet.beat(beat)).await?;
        Ok(orders.first().copied())
    }

    fn member(&self) -> WorkerEntry {
        let draining = self.draining.is_cancelled();
        WorkerEntry {
            id: self.id.clone(),
            offer: Offer::jobs(),
            endpoint: String::new(),
            status: if draining { WorkerStatus::Draining } else { WorkerStatus::Available },
            room: Capacity { concurrent: 0, lifetime: 0 },
            fresh: FRESH,
            detail: Bytes::from(self.card.write(&self.station)),
        }
    }

    fn obey(&self, orders: Option<WorkerOrders>) {
        if orders.is_some_and(|orders| orders.drain) && !self.draining.is_cancelled() {
            info!(worker = %self.station.worker, "ordered to go: nothing more is claimed");
            self.ordered.cancel();
        }
    }

    /// Waits for the next beat. The first moment of draining is one: others should know at once.
    async fn pause(&self, pause: Duration, said: bool, end: &CancellationToken) -> Next {
        let mut over = self.station.store.clock().sleep(pause);
        loop {
            tokio::select! {
                () = end.cancelled() => return Next::End,
                () = &mut over => return Next::Beat,
                () = self.calls.member.notified() => return Next::Beat,
                () = self.draining.cancelled(), if !said => return Next::Beat,
                () = self.missed() => if self.is_wanted().await { return Next::Beat },
            }
        }
    }

    /// Completes when something may have been missed, but not all the time: a store that shares its file with busy
    /// writers says so at each of their writes.
    async fn missed(&self) {
        tokio::time::sleep(GLANCE).await;
        self.calls.something.notified().await;
    }

    /// Whether there is an order for this member, or no entry of it. Reads only: of workers that beat because others have
    /// written, each would call all the others.
    async fn is_wanted(&self) -> bool {
        match within(BEAT, "member", self.station.store.fleet().get_worker(&self.id)).await {
            Ok(info) => info.is_none_or(|info| info.ordered),
            Err(_) => false,
        }
    }

    async fn leave(&self) {
        let members = [self.id.clone()];
        if let Err(error) = within(GOODBYE, "part", self.station.store.fleet().part(&members)).await {
            debug!("the worker stays on the roster until it is taken for dead: {}", error.chain());
        }
    }
}

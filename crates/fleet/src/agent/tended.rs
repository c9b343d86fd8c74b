//! One that the agent has started and looks after, as the fleet sees it.

use bytes::Bytes;
use serde::Serialize;
use tidemill_core::Timestamp;
use tidemill_core::fleet::{Capacity, Offer, WorkerKey};
use tidemill_core::store::fleet::{WorkerEntry, WorkerOrders, WorkerStatus};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::door::Path;
use super::plan::{Leaving, Seen};
use crate::terms::{DOUBT, FRESH};

/// What is to be known of a member beyond what the fleet needs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct About {
    pub(super) host: String,
    pub(super) agent: String,
    pub(super) pid: i32,
    pub(super) engine: &'static str,
    pub(super) version: String,
    pub(super) started_at: Timestamp,
    /// How many of its line have crashed under this agent.
    pub(super) crashes: u64,
}

/// One that is looked after.
#[derive(Debug)]
pub(super) struct Tended {
    pub(super) id: WorkerKey,
    pub(super) offer: Offer,
    pub(super) endpoint: String,
    /// Its path through the door, held and never read.
    pub(super) _path: Option<Path>,
    pub(super) room: Capacity,
    pub(super) about: About,
    /// Which of the agent's lines it belongs to.
    pub(super) line: usize,
    /// The store was asked to enter it. Whether it did may be unknown, and asking again would end the sessions it has had
    /// since: from then on it only beats, which enters it as well.
    pub(super) asked: bool,
    /// The store has it.
    pub(super) joined: bool,
    pub(super) leaving: Leaving,
    pub(super) tally: Tally,
    pub(super) since: Instant,
    /// Closes it.
    pub(super) close: CancellationToken,
}

impl Tended {
    /// What the store is told.
    pub(super) fn member(&self) -> WorkerEntry {
        let status =
            if self.leaving == Leaving::No { WorkerStatus::Available } else { WorkerStatus::Draining };
        // A few short texts and numbers always make JSON.
        let detail = serde_json::to_vec(&self.about).map_or_else(|_| Bytes::from_static(b"{}"), Bytes::from);
        WorkerEntry {
            id: self.id.clone(),
            offer: self.offer.clone(),
            endpoint: self.endpoint.clone(),
            status,
            capacity: self.room,
            beat_timeout: FRESH,
            detail,
        }
    }

    /// What there is to decide upon.
    pub(super) fn seen(&self, number: u64) -> Seen {
        let Self { joined, leaving, tally, .. } = self;
        let active = if tally.is_doubtful() { tally.active.max(1) } else { tally.active };
        let (joined, leaving) = (*joined, *leaving);
        Seen { number, joined, active, lifetime: tally.lifetime(), ordered: tally.ordered, leaving }
    }
}

/// What the store has said about one's sessions, by an agent that remembers more than the store.
#[derive(Debug, Default)]
pub(super) struct Tally {
    active: u32,
    ordered: bool,
    /// What the store counts now, and what it had counted before it lost its data.
    counted: u64,
    before: u64,
    doubtful_until: Option<Instant>,
}

impl Tally {
    /// Takes in what the store says.
    pub(super) fn hear(&mut self, orders: &WorkerOrders) {
        if orders.lifetime < self.counted {
            self.before += self.counted;
            self.doubt();
        }
        (self.active, self.counted) = (orders.active, orders.lifetime);
        // An order stands for a while only, but whoever has heard it obeys.
        self.ordered |= orders.drain;
    }

    /// What the store says of sessions may be less than there are.
    pub(super) fn doubt(&mut self) {
        self.doubtful_until = Some(Instant::now() + DOUBT);
    }

    fn lifetime(&self) -> u64 {
        self.before + self.counted
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful_until.is_some_and(|until| until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn orders(active: u32, lifetime: u64) -> WorkerOrders {
        WorkerOrders { drain: false, active, lifetime }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_not_over_because_the_store_has_forgotten_it() {
        let mut tally = Tally::default();
        tally.hear(&orders(1, 1));
        tally.hear(&orders(0, 0));
        assert!(tally.is_doubtful() && tally.lifetime() == 1);
        tokio::time::advance(DOUBT + Duration::from_secs(1)).await;
        assert!(!tally.is_doubtful() && tally.lifetime() == 1);
    }

    #[test]
    fn an_order_is_obeyed_although_it_has_run_out() {
        let mut tally = Tally::default();
        tally.hear(&WorkerOrders { drain: true, ..orders(2, 7) });
        tally.hear(&orders(2, 7));
        assert!(tally.ordered && tally.active == 2 && tally.lifetime() == 7);
    }
}

//! A browser that the agent has started and supervises.

use bytes::Bytes;
use serde::Serialize;
use tidemill_core::Timestamp;
use tidemill_core::fleet::{Capacity, Offer, WorkerKey};
use tidemill_core::store::fleet::{WorkerEntry, WorkerOrders, WorkerStatus};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ingress::IngressPath;
use super::plan::{BrowserStatus, DrainPhase};
use crate::timing::{UNCERTAIN_PERIOD, WORKER_TTL};

/// What the fleet shows of a worker beyond what it needs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct BrowserDetail {
    pub(super) host: String,
    pub(super) agent: String,
    pub(super) pid: i32,
    pub(super) engine: &'static str,
    pub(super) version: String,
    pub(super) started_at: Timestamp,
    /// How many of its pool have crashed under this agent.
    pub(super) crashes: u64,
}

/// A supervised browser.
#[derive(Debug)]
pub(super) struct ManagedBrowser {
    pub(super) id: WorkerKey,
    pub(super) offer: Offer,
    pub(super) endpoint: String,
    /// Its path through the ingress; held, never read.
    pub(super) _ingress_path: Option<IngressPath>,
    pub(super) capacity: Capacity,
    pub(super) detail: BrowserDetail,
    /// The index of its pool.
    pub(super) pool: usize,
    /// A join was sent. Its result may be unknown, and a second join would end the sessions it has
    /// had since. From then on it only beats, which registers it too.
    pub(super) join_sent: bool,
    /// The store has registered it.
    pub(super) joined: bool,
    pub(super) phase: DrainPhase,
    pub(super) counts: SessionCounts,
    pub(super) started_at: Instant,
    /// Closes it.
    pub(super) close: CancellationToken,
}

impl ManagedBrowser {
    /// The entry that the store receives.
    pub(super) fn entry(&self) -> WorkerEntry {
        let status =
            if self.phase == DrainPhase::Serving { WorkerStatus::Available } else { WorkerStatus::Draining };
        // Short texts and numbers always serialize.
        let detail = serde_json::to_vec(&self.detail).map_or_else(|_| Bytes::from_static(b"{}"), Bytes::from);
        WorkerEntry {
            id: self.id.clone(),
            offer: self.offer.clone(),
            endpoint: self.endpoint.clone(),
            status,
            capacity: self.capacity,
            beat_timeout: WORKER_TTL,
            detail,
        }
    }

    /// The input of the pool's plan.
    pub(super) fn status(&self, number: u64) -> BrowserStatus {
        let Self { joined, phase: leaving, counts, .. } = self;
        let active = if counts.is_uncertain() { counts.active.max(1) } else { counts.active };
        let (joined, leaving) = (*joined, *leaving);
        BrowserStatus {
            number,
            joined,
            active,
            lifetime: counts.lifetime(),
            drain_ordered: counts.drain_ordered,
            phase: leaving,
        }
    }
}

/// The store's session counts of one browser, kept across a loss of the store's data.
#[derive(Debug, Default)]
pub(super) struct SessionCounts {
    active: u32,
    drain_ordered: bool,
    /// What the store counts now, and what it had counted before it lost its data.
    store_lifetime: u64,
    lost_lifetime: u64,
    uncertain_until: Option<Instant>,
}

impl SessionCounts {
    /// Applies the store's answer.
    pub(super) fn update(&mut self, orders: &WorkerOrders) {
        if orders.lifetime < self.store_lifetime {
            self.lost_lifetime += self.store_lifetime;
            self.mark_uncertain();
        }
        (self.active, self.store_lifetime) = (orders.active, orders.lifetime);
        // The store forgets an order after a while; the agent does not.
        self.drain_ordered |= orders.drain;
    }

    /// The store may not know all sessions yet.
    pub(super) fn mark_uncertain(&mut self) {
        self.uncertain_until = Some(Instant::now() + UNCERTAIN_PERIOD);
    }

    fn lifetime(&self) -> u64 {
        self.lost_lifetime + self.store_lifetime
    }

    pub(super) fn is_uncertain(&self) -> bool {
        self.uncertain_until.is_some_and(|until| until > Instant::now())
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
        let mut counts = SessionCounts::default();
        counts.update(&orders(1, 1));
        counts.update(&orders(0, 0));
        assert!(counts.is_uncertain() && counts.lifetime() == 1);
        tokio::time::advance(UNCERTAIN_PERIOD + Duration::from_secs(1)).await;
        assert!(!counts.is_uncertain() && counts.lifetime() == 1);
    }

    #[test]
    fn an_order_is_obeyed_although_it_has_run_out() {
        let mut counts = SessionCounts::default();
        counts.update(&WorkerOrders { drain: true, ..orders(2, 7) });
        counts.update(&orders(2, 7));
        assert!(counts.drain_ordered && counts.active == 2 && counts.lifetime() == 7);
    }
}

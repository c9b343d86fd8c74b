//! The rescue of expired leases: reads them page by page, decides each, and settles it.
//!
//! Any process may rescue at any time, for all queues of the store. The decision depends on the
//! envelope alone, not on the handlers registered in the process. So a process that does not know a
//! kind does no harm to its jobs.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::clock_monitor::{ClockMonitor, ClockSample};
use crate::dead_letter::DeadLetter;
use crate::envelope::Envelope;
use crate::lease::{MAX_HEARTBEAT, heartbeat};
use crate::name::{Guarantee, Queue};
use crate::settle::Change;
use crate::settle::{Settlement, decide_abandoned, decide_expired, decide_malformed};
use crate::store::{ClockStep, Error, ExpiredLease, ListExpiredParams, SettleParams, Store, Verdict};

/// The number of leases per page. A page is one round trip, and bounds the work of the store.
const PAGE_LEASES: usize = 256;

/// The longest remaining time of a lease after the store's clock was set back, until it is
/// extended. A limit, instead of subtracting the step: every worker detects the step, some leases
/// were extended since, and the length of each lease is unknown. It lets a live worker miss two
/// heartbeats.
const MAX_LEASE_AFTER_STEP: Duration = Duration::from_millis(MAX_HEARTBEAT.as_millis() as u64 * 3);

/// Rescues expired leases repeatedly, and distrusts a store's clock that was set in between.
#[derive(Debug)]
pub struct Rescuer {
    queues: Vec<Queue>,
    lease: Duration,
    clocks: Option<ClockMonitor>,
    /// What a clock would show if it had not been set back, until the store has adjusted.
    set_back_from: Option<Timestamp>,
}

/// The result of one rescue of all expired leases.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RescueReport {
    /// How many leases were settled.
    pub rescued: u64,
    /// What the store's clock would show if it had not been set back; `None` if it was not.
    pub clock_set_back_from: Option<Timestamp>,
}

/// A job that the rescuer moved to the dead letters.
#[derive(Debug, Clone, Copy)]
pub struct RescuedDeath<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// The envelope of the last attempt; `None` if the bytes are not an envelope.
    pub envelope: Option<&'a Envelope>,
    /// The dead letter.
    pub letter: &'a DeadLetter,
}

impl Rescuer {
    /// Creates a rescuer. `queues` and `lease` are for leases of unknown length: see
    /// [`ListExpiredParams`].
    pub fn new(queues: Vec<Queue>, lease: Duration) -> Self {
        Self { queues, lease, clocks: Some(ClockMonitor::new(heartbeat(lease))), set_back_from: None }
    }

    /// Rescues all expired leases, page by page.
    ///
    /// # Errors
    /// Returns the first error of the store. Pages before it have been rescued.
    pub async fn rescue_all(&mut self, store: &dyn Store) -> Result<RescueReport, Error> {
        self.rescue_and_report(store, &mut |_| {}).await
    }

    /// Like [`rescue_all`](Self::rescue_all), and calls `on_death` for each job that was moved to
    /// the dead letters, because no worker reports it.
    ///
    /// # Errors
    /// As [`rescue_all`](Self::rescue_all).
    pub async fn rescue_and_report(
        &mut self,
        store: &dyn Store,
        on_death: &mut (dyn FnMut(RescuedDeath<'_>) + Send),
    ) -> Result<RescueReport, Error> {
        let (mut report, mut cursor) = (RescueReport::default(), None);
        loop {
            let asked = store.clock().monotonic();
            let (queues, lease) = (&self.queues[..], self.lease);
            let page =
                store.list_expired(ListExpiredParams { queues, lease, cursor, limit: PAGE_LEASES }).await?;
            self.record_times(&page.shard_times, ClockSample { asked, answered: store.clock().monotonic() });
            if let Some(from) = self.set_back_from {
                store.adjust_for_clock_step(ClockStep { from, lease_limit: MAX_LEASE_AFTER_STEP }).await?;
                report.clock_set_back_from = self.set_back_from.take();
            }
            report.rescued += self.rescue(store, page.leases, on_death).await?;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(report);
            }
        }
    }

    fn record_times(&mut self, times: &[(u16, Timestamp)], sample: ClockSample) {
        let Some(clocks) = &mut self.clocks else { return };
        for (shard, time) in times {
            self.set_back_from = clocks.record(*shard, *time, sample).or(self.set_back_from);
        }
    }

    async fn rescue(
        &self,
        store: &dyn Store,
        mut leases: Vec<ExpiredLease>,
        on_death: &mut (dyn FnMut(RescuedDeath<'_>) + Send),
    ) -> Result<u64, Error> {
        let now = store.clock().monotonic();
        leases.retain(|expired| {
            self.clocks.as_ref().is_none_or(|clocks| clocks.is_trusted(expired.claimed.lease.shard, now))
        });
        if leases.is_empty() {
            return Ok(0);
        }
        let settlements: Vec<_> = leases.iter().map(|expired| decide_lease(store, expired)).collect();
        let verdicts = store.settle(SettleParams::expired(&settlements)).await?;
        let mut rescued = 0;
        for ((expired, settlement), verdict) in leases.iter().zip(&settlements).zip(verdicts) {
            if verdict != Verdict::Accepted {
                continue;
            }
            rescued += 1;
            if let Change::Bury(letter) = &settlement.change {
                let envelope = expired.claimed.body.as_ref().ok();
                on_death(RescuedDeath { queue: &settlement.lease.queue, envelope, letter });
            }
        }
        Ok(rescued)
    }
}

/// Rescues all expired leases of the store once, without checking its clock.
///
/// # Errors
/// Returns the first error of the store.
pub async fn rescue(store: &dyn Store, queues: &[Queue], lease: Duration) -> Result<u64, Error> {
    let mut rescuer = Rescuer { queues: queues.to_vec(), lease, clocks: None, set_back_from: None };
    Ok(rescuer.rescue_all(store).await?.rescued)
}

fn decide_lease(store: &dyn Store, expired: &ExpiredLease) -> Settlement {
    let now = store.clock().now();
    let claimed = &expired.claimed;
    let change = match &claimed.body {
        // The claim removed it from its queue, so it does not run again. Callers that wait for it
        // are notified.
        Ok(envelope) if claimed.lease.queue.guarantee == Guarantee::AtMostOnce => {
            decide_abandoned(envelope, claimed.started, now)
        }
        Err(_) if claimed.lease.queue.guarantee == Guarantee::AtMostOnce => Change::Finish(None),
        Ok(envelope) => decide_expired(envelope, claimed.started, now),
        Err((raw, error)) => decide_malformed(&claimed.lease, raw, error, now),
    };
    Settlement { lease: claimed.lease.clone(), change }
}

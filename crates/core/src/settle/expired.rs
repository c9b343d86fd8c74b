//! Bringing back jobs whose worker died: read pages of expired leases of all queues, decide each, make it stick.
//!
//! Any process may do this at any time, for every queue of the store. It decides from the envelope alone, never from the
//! handlers that happen to be registered here, so a process that does not know a kind does not harm its jobs.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::clock_monitor::{ClockMonitor, ClockSample};
use crate::dead_letter::DeadLetter;
use crate::envelope::Envelope;
use crate::lease::{MAX_HEARTBEAT, heartbeat};
use crate::name::{Guarantee, Queue};
use crate::settle::Change;
use crate::settle::{Settlement, decide_abandoned, decide_expired, decide_malformed};
use crate::store::{ClockStep, Error, ExpiredLease, ListExpiredParams, Store, Verdict};

/// How many leases one page holds: one page is one round trip, and bounds what a store does at once.
const PAGE_LEASES: usize = 256;

/// How long a lease may last when the store's clock was set back, until it is extended. A limit, and not the length of the
/// step taken off: every worker notices the step, some leases were extended since, and nobody knows how long each one is.
/// Whatever its lease, a live worker may miss two heartbeats.
const MAX_LEASE_AFTER_STEP: Duration = Duration::from_millis(MAX_HEARTBEAT.as_millis() as u64 * 3);

/// Looks for leases that have run out, again and again, and takes no clock at its word that was set in between.
#[derive(Debug)]
pub struct Rescuer {
    queues: Vec<Queue>,
    lease: Duration,
    clocks: Option<ClockMonitor>,
    /// What a clock showed before it was set back, until the store has been told.
    set_back_from: Option<Timestamp>,
}

/// What a look has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RescueReport {
    /// How many jobs were freed.
    pub rescued: u64,
    /// What the store's clock would show had nobody set it back.
    pub clock_set_back_from: Option<Timestamp>,
}

/// A job that a rescue has moved to the dead letters.
#[derive(Debug, Clone, Copy)]
pub struct RescuedDeath<'a> {
    /// Where it was.
    pub queue: &'a Queue,
    /// As its last worker had it; none if its bytes are no envelope.
    pub envelope: Option<&'a Envelope>,
    /// As it is kept.
    pub letter: &'a DeadLetter,
}

impl Rescuer {
    /// One that serves `queues` with this lease: see [`ListExpiredParams`].
    pub fn new(queues: Vec<Queue>, lease: Duration) -> Self {
        Self { queues, lease, clocks: Some(ClockMonitor::new(heartbeat(lease))), set_back_from: None }
    }

    /// Rescues every expired lease, page by page.
    pub async fn rescue_all(&mut self, store: &dyn Store) -> Result<RescueReport, Error> {
        self.rescue_and_report(store, &mut |_| {}).await
    }

    /// The same, and reports each job that was moved to the dead letters: it may have run elsewhere for the last time.
    pub async fn rescue_and_report(
        &mut self,
        store: &dyn Store,
        died: &mut (dyn FnMut(RescuedDeath<'_>) + Send),
    ) -> Result<RescueReport, Error> {
        let (mut looked, mut cursor) = (RescueReport::default(), None);
        loop {
            let at = store.clock().monotonic();
            let (queues, lease) = (&self.queues[..], self.lease);
            let page =
                store.list_expired(ListExpiredParams { queues, lease, cursor, limit: PAGE_LEASES }).await?;
            self.note(&page.shard_times, ClockSample { asked: at, answered: store.clock().monotonic() });
            if let Some(from) = self.set_back_from {
                store.adjust_for_clock_step(ClockStep { from, lease_limit: MAX_LEASE_AFTER_STEP }).await?;
                looked.clock_set_back_from = self.set_back_from.take();
            }
            looked.rescued += self.rescue(store, page.leases, died).await?;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(looked);
            }
        }
    }

    fn note(&mut self, times: &[(u16, Timestamp)], asked: ClockSample) {
        let Some(clocks) = &mut self.clocks else { return };
        for (shard, time) in times {
            self.set_back_from = clocks.record(*shard, *time, asked).or(self.set_back_from);
        }
    }

    async fn rescue(
        &self,
        store: &dyn Store,
        mut holds: Vec<ExpiredLease>,
        died: &mut (dyn FnMut(RescuedDeath<'_>) + Send),
    ) -> Result<u64, Error> {
        let now = store.clock().monotonic();
        holds.retain(|hold| {
            self.clocks.as_ref().is_none_or(|clocks| clocks.is_trusted(hold.claimed.lease.shard, now))
        });
        if holds.is_empty() {
            return Ok(0);
        }
        let settlements: Vec<_> = holds.iter().map(|hold| decide_hold(store, hold)).collect();
        let verdicts = store.rescue(&settlements).await?;
        let mut rescued = 0;
        for ((hold, settlement), verdict) in holds.iter().zip(&settlements).zip(verdicts) {
            if verdict != Verdict::Accepted {
                continue;
            }
            rescued += 1;
            if let Change::Bury(letter) = &settlement.change {
                let envelope = hold.claimed.body.as_ref().ok();
                died(RescuedDeath { queue: &settlement.lease.queue, envelope, letter });
            }
        }
        Ok(rescued)
    }
}

/// Rescues every expired lease of the store once, and takes its clock at its word.
pub async fn rescue(store: &dyn Store, queues: &[Queue], lease: Duration) -> Result<u64, Error> {
    let mut rescuer = Rescuer { queues: queues.to_vec(), lease, clocks: None, set_back_from: None };
    Ok(rescuer.rescue_all(store).await?.rescued)
}

fn decide_hold(store: &dyn Store, hold: &ExpiredLease) -> Settlement {
    let now = store.clock().now();
    let claimed = &hold.claimed;
    let change = match &claimed.body {
        // Taken when it was claimed: whoever had it, it does not come back. Whoever waits for it is told.
        Ok(envelope) if claimed.lease.queue.guarantee == Guarantee::AtMostOnce => {
            decide_abandoned(envelope, claimed.started, now)
        }
        Err(_) if claimed.lease.queue.guarantee == Guarantee::AtMostOnce => Change::Finish(None),
        Ok(envelope) => decide_expired(envelope, claimed.started, now),
        Err((raw, error)) => decide_malformed(&claimed.lease, raw, error, now),
    };
    Settlement { lease: claimed.lease.clone(), change }
}

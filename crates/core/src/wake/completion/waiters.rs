//! Who waits for which end, who of them sleeps, and who was told. Wakers leave it by value: what a waker does when it is
//! called or dropped is the executor's business, and must not happen under anybody's lock.

use std::collections::{BTreeMap, HashMap};
use std::task::Waker;

use crate::name::JobId;

/// Everybody who waits.
#[derive(Default)]
pub(super) struct Waiters {
    waiters: HashMap<JobId, HashMap<u64, WaiterEntry>>,
    /// Those who sleep, by the turn in which they lay down. Whoever is woken is taken out, so that nobody is called twice
    /// before it has come.
    asleep: BTreeMap<u64, Waker>,
    /// Numbers and turns that were given out.
    given: u64,
}

struct WaiterEntry {
    /// Whether there is news that it has not taken.
    told: bool,
    /// Where it sleeps, if it does: a turn that is over is nobody else's.
    turn: u64,
}

/// A place on the roll.
pub(super) struct WaiterKey {
    job: JobId,
    number: u64,
}

impl Waiters {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn insert(&mut self, job: JobId) -> WaiterKey {
        let number = self.give();
        self.waiters.entry(job.clone()).or_default().insert(number, WaiterEntry { told: false, turn: 0 });
        WaiterKey { job, number }
    }

    pub(super) fn remove(&mut self, ticket: &WaiterKey) -> Option<Waker> {
        let waker = self.unpark(ticket);
        if let Some(others) = self.waiters.get_mut(&ticket.job) {
            others.remove(&ticket.number);
            if others.is_empty() {
                self.waiters.remove(&ticket.job);
            }
        }
        waker
    }

    /// Whether there is news, which is thereby taken.
    pub(super) fn take_notice(&mut self, ticket: &WaiterKey) -> bool {
        self.entry(ticket).is_some_and(|entry| std::mem::take(&mut entry.told))
    }

    /// Lays it down until somebody calls; returns the waker it slept with before.
    pub(super) fn park(&mut self, ticket: &WaiterKey, waker: Waker) -> Option<Waker> {
        let turn = self.give();
        let before = std::mem::replace(&mut self.entry(ticket)?.turn, turn);
        self.asleep.insert(turn, waker);
        self.asleep.remove(&before)
    }

    /// Takes it from those who sleep, because it does something else now and would not come if it was called.
    pub(super) fn unpark(&mut self, ticket: &WaiterKey) -> Option<Waker> {
        let turn = self.entry(ticket)?.turn;
        self.asleep.remove(&turn)
    }

    /// Somebody who will look at the stream: the last one that lay down, because it is the one most surely alive. A future
    /// that its task has stopped polling has not lain down for long.
    pub(super) fn pick_reader(&mut self) -> Option<Waker> {
        self.asleep.pop_last().map(|(_, waker)| waker)
    }

    /// Tells those who wait for this end; returns the wakers of those who sleep.
    pub(super) fn notify(&mut self, job: &JobId) -> Vec<Waker> {
        let asleep = &mut self.asleep;
        let told = self.waiters.get_mut(job).into_iter().flat_map(HashMap::values_mut);
        told.filter_map(|entry| entry.tell(asleep)).collect()
    }

    /// Tells everybody; returns the wakers of those who sleep.
    pub(super) fn notify_all(&mut self) -> Vec<Waker> {
        let asleep = &mut self.asleep;
        let told = self.waiters.values_mut().flat_map(HashMap::values_mut);
        told.filter_map(|entry| entry.tell(asleep)).collect()
    }

    fn entry(&mut self, ticket: &WaiterKey) -> Option<&mut WaiterEntry> {
        self.waiters.get_mut(&ticket.job)?.get_mut(&ticket.number)
    }

    fn give(&mut self) -> u64 {
        self.given += 1;
        self.given
    }
}

impl WaiterEntry {
    fn tell(&mut self, asleep: &mut BTreeMap<u64, Waker>) -> Option<Waker> {
        self.told = true;
        asleep.remove(&self.turn)
    }
}

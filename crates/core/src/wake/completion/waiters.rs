//! The table of completion waiters: which job each waits for, which are parked, and which have been
//! notified.
//!
//! Methods return wakers by value. Waking or dropping a waker runs code of the executor, which must
//! not happen under a lock.

use std::collections::{BTreeMap, HashMap};
use std::task::Waker;

use crate::name::JobId;

/// All completion waiters of one client.
#[derive(Default)]
pub(super) struct Waiters {
    waiters: HashMap<JobId, HashMap<u64, WaiterEntry>>,
    /// Parked waiters, in the order of parking. A waiter that is woken is removed, so that it is
    /// not woken twice before it runs.
    parked: BTreeMap<u64, Waker>,
    /// The last number given to a waiter or to a parking.
    last_number: u64,
}

struct WaiterEntry {
    /// Whether it was notified and has not taken the notification.
    notified: bool,
    /// The number of its last parking; it is parked if `parked` contains the number. Numbers are
    /// not reused.
    parking: u64,
}

/// The key of a waiter in the table.
pub(super) struct WaiterKey {
    job: JobId,
    number: u64,
}

impl Waiters {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn insert(&mut self, job: JobId) -> WaiterKey {
        let number = self.next_number();
        self.waiters
            .entry(job.clone())
            .or_default()
            .insert(number, WaiterEntry { notified: false, parking: 0 });
        WaiterKey { job, number }
    }

    pub(super) fn remove(&mut self, key: &WaiterKey) -> Option<Waker> {
        let waker = self.unpark(key);
        if let Some(others) = self.waiters.get_mut(&key.job) {
            others.remove(&key.number);
            if others.is_empty() {
                self.waiters.remove(&key.job);
            }
        }
        waker
    }

    /// Takes the notification of this waiter; returns whether there was one.
    pub(super) fn take_notice(&mut self, key: &WaiterKey) -> bool {
        self.entry(key).is_some_and(|entry| std::mem::take(&mut entry.notified))
    }

    /// Parks the waiter; returns the waker of its previous parking.
    pub(super) fn park(&mut self, key: &WaiterKey, waker: Waker) -> Option<Waker> {
        let parking = self.next_number();
        let before = std::mem::replace(&mut self.entry(key)?.parking, parking);
        self.parked.insert(parking, waker);
        self.parked.remove(&before)
    }

    /// Removes the waiter from the parked ones, because it would not read the stream if it was
    /// woken.
    pub(super) fn unpark(&mut self, key: &WaiterKey) -> Option<Waker> {
        let parking = self.entry(key)?.parking;
        self.parked.remove(&parking)
    }

    /// Removes and returns a waker to read the stream: the waiter that was parked last, because it
    /// is most likely to be polled. A future that its task no longer polls was parked long ago.
    pub(super) fn pick_reader(&mut self) -> Option<Waker> {
        self.parked.pop_last().map(|(_, waker)| waker)
    }

    /// Notifies the waiters for this job; returns the wakers of the parked ones.
    pub(super) fn notify(&mut self, job: &JobId) -> Vec<Waker> {
        let parked = &mut self.parked;
        let entries = self.waiters.get_mut(job).into_iter().flat_map(HashMap::values_mut);
        entries.filter_map(|entry| entry.notify(parked)).collect()
    }

    /// Notifies all waiters; returns the wakers of the parked ones.
    pub(super) fn notify_all(&mut self) -> Vec<Waker> {
        let parked = &mut self.parked;
        let entries = self.waiters.values_mut().flat_map(HashMap::values_mut);
        entries.filter_map(|entry| entry.notify(parked)).collect()
    }

    fn entry(&mut self, key: &WaiterKey) -> Option<&mut WaiterEntry> {
        self.waiters.get_mut(&key.job)?.get_mut(&key.number)
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl WaiterEntry {
    fn notify(&mut self, parked: &mut BTreeMap<u64, Waker>) -> Option<Waker> {
        self.notified = true;
        parked.remove(&self.parking)
    }
}

//! The local waiters: clients that wait here for a browser, and which of them a wake-up notifies.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::fleet::{Offer, WorkerKind};
use tokio::sync::Notify;

/// How many waiters of a queue a wake-up notifies, of those that accept any browser and of those
/// that rejected some. Only the first of each can get a browser, and the next is notified then. A
/// few more than one, because the local order may differ from the store's.
const MAX_NOTIFIED: usize = 4;

type QueueKey = (WorkerKind, Offer);

/// Whether it rejected a browser, and its number.
type WaiterOrder = (bool, u64);

/// All local waiters.
#[derive(Debug, Default)]
pub(crate) struct BrowserWaiters(Mutex<WaiterQueues>);

#[derive(Debug, Default)]
struct WaiterQueues {
    queues: HashMap<QueueKey, BTreeMap<WaiterOrder, Arc<Notify>>>,
    next: u64,
}

impl BrowserWaiters {
    fn queues(&self) -> MutexGuard<'_, WaiterQueues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter behind all others. One that `rejects` browsers goes behind those that do.
    pub(crate) fn join(&self, kind: &WorkerKind, offer: &Offer, rejects: bool) -> BrowserWaiter<'_> {
        let (key, notify) = ((kind.clone(), offer.clone()), Arc::<Notify>::default());
        let mut waiting = self.queues();
        let order = (rejects, waiting.next);
        waiting.next += 1;
        waiting.queues.entry(key.clone()).or_default().insert(order, notify.clone());
        BrowserWaiter { waiters: self, key, order, notify }
    }

    /// Notifies waiters of this kind, or of all kinds: a browser may be free.
    pub(crate) fn notify(&self, kind: Option<&WorkerKind>) {
        for ((queue_kind, _), line) in &self.queues().queues {
            if kind.is_none_or(|kind| kind == queue_kind) {
                notify_first(line.range(..(true, 0)));
                notify_first(line.range((true, 0)..));
            }
        }
    }

    /// How many wait here.
    pub(crate) fn count(&self) -> u64 {
        self.queues().queues.values().map(|line| line.len() as u64).sum()
    }
}

fn notify_first<'a>(waiting: impl Iterator<Item = (&'a WaiterOrder, &'a Arc<Notify>)>) {
    waiting.take(MAX_NOTIFIED).for_each(|(_, notify)| notify.notify_one());
}

/// A waiting client.
#[derive(Debug)]
pub(crate) struct BrowserWaiter<'a> {
    waiters: &'a BrowserWaiters,
    key: QueueKey,
    order: WaiterOrder,
    notify: Arc<Notify>,
}

impl BrowserWaiter<'_> {
    /// Completes when the client should try again.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for BrowserWaiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.queues();
        if let Some(line) = waiting.queues.get_mut(&self.key) {
            line.remove(&self.order);
            if line.is_empty() {
                waiting.queues.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_first_of_each_line_of_a_kind_are_called() {
        let (lines, kind) = (BrowserWaiters::default(), |name: &str| WorkerKind::new(name).unwrap());
        let offer = Offer::new("cdp").unwrap();
        let waiters: Vec<_> =
            (0..MAX_NOTIFIED + 2).map(|_| lines.join(&kind("chromium"), &offer, false)).collect();
        let other = lines.join(&kind("firefox"), &offer, false);
        lines.notify(Some(&kind("chromium")));
        let notified: Vec<_> =
            waiters.iter().map(|waiter| waiter.notified().now_or_never().is_some()).collect();
        assert_eq!(notified, [true, true, true, true, false, false]);
        assert!(other.notified().now_or_never().is_none());
        assert_eq!(lines.count(), 7);
        drop((waiters, other));
        assert_eq!(lines.count(), 0);
    }

    #[test]
    fn those_who_refuse_some_and_those_who_refuse_none_keep_no_call_from_each_other() {
        let (lines, kind) = (BrowserWaiters::default(), WorkerKind::chromium());
        let offer = Offer::new("cdp").unwrap();
        let join =
            |rejects| (0..=MAX_NOTIFIED).map(|_| lines.join(&kind, &offer, rejects)).collect::<Vec<_>>();
        let waiters = [join(true), join(false)];
        lines.notify(None);
        for line in &waiters {
            let notified = line.iter().filter(|waiter| waiter.notified().now_or_never().is_some());
            assert_eq!(notified.count(), MAX_NOTIFIED);
        }
    }
}

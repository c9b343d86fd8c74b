//! Who waits here for a browser, and who of them is called when there may be one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::fleet::{MemberKind, Offer};
use tokio::sync::Notify;

/// How many of a line are called when there are places. Only the first in line can be given one, and whoever is given one
/// has the next called; a few more than one, because the order here may differ a little from the store's.
const CALLED: usize = 4;

type Key = (MemberKind, Offer);

/// All who wait here.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    lines: HashMap<Key, BTreeMap<u64, Arc<Notify>>>,
    next: u64,
}

impl Lines {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits in line from now on, behind all who do already.
    pub(crate) fn join(&self, kind: &MemberKind, offer: &Offer) -> Waiter<'_> {
        let (key, call) = ((kind.clone(), offer.clone()), Arc::<Notify>::default());
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.lines.entry(key.clone()).or_default().insert(number, call.clone());
        Waiter { lines: self, key, number, call }
    }

    /// There are places at browsers of this kind, or of any.
    pub(crate) fn call(&self, kind: Option<&MemberKind>) {
        for ((of, _), line) in &self.waiting().lines {
            if kind.is_none_or(|kind| kind == of) {
                line.values().take(CALLED).for_each(|call| call.notify_one());
            }
        }
    }

    /// How many wait here.
    pub(crate) fn count(&self) -> u64 {
        self.waiting().lines.values().map(|line| line.len() as u64).sum()
    }
}

/// One who waits.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    lines: &'a Lines,
    key: Key,
    number: u64,
    call: Arc<Notify>,
}

impl Waiter<'_> {
    /// Completes when it should ask.
    pub(crate) async fn called(&self) {
        self.call.notified().await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.lines.waiting();
        if let Some(line) = waiting.lines.get_mut(&self.key) {
            line.remove(&self.number);
            if line.is_empty() {
                waiting.lines.remove(&self.key);
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
        let (lines, kind) = (Lines::default(), |name: &str| MemberKind::new(name).unwrap());
        let offer = Offer::new("cdp").unwrap();
        let waiters: Vec<_> = (0..CALLED + 2).map(|_| lines.join(&kind("chromium"), &offer)).collect();
        let other = lines.join(&kind("firefox"), &offer);
        lines.call(Some(&kind("chromium")));
        let called: Vec<_> = waiters.iter().map(|waiter| waiter.called().now_or_never().is_some()).collect();
        assert_eq!(called, [true, true, true, true, false, false]);
        assert!(other.called().now_or_never().is_none());
        assert_eq!(lines.count(), 7);
        drop((waiters, other));
        assert_eq!(lines.count(), 0);
    }
}

//! Who waits here for a browser, and who of them is called when there may be one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::fleet::{Offer, WorkerKind};
use tokio::sync::Notify;

/// How many of a line are called when there are places: of those who can use any browser, and of those who cannot. Only the
/// first can be given one, or the first who can use what others refuse, and whoever is given one has the next called; a few
/// more than one, because the order here may differ a little from the store's.
const CALLED: usize = 4;

type Key = (WorkerKind, Offer);

/// Whether it refuses browsers, and its turn among its like.
type Turn = (bool, u64);

/// All who wait here.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    lines: HashMap<Key, BTreeMap<Turn, Arc<Notify>>>,
    next: u64,
}

impl Lines {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits in line from now on, behind all who do already; if it `refuses` browsers, behind those who do, too.
    pub(crate) fn join(&self, kind: &WorkerKind, offer: &Offer, refuses: bool) -> Waiter<'_> {
        let (key, call) = ((kind.clone(), offer.clone()), Arc::<Notify>::default());
        let mut waiting = self.waiting();
        let turn = (refuses, waiting.next);
        waiting.next += 1;
        waiting.lines.entry(key.clone()).or_default().insert(turn, call.clone());
        Waiter { lines: self, key, turn, call }
    }

    /// There are places at browsers of this kind, or of any.
    pub(crate) fn call(&self, kind: Option<&WorkerKind>) {
        for ((of, _), line) in &self.waiting().lines {
            if kind.is_none_or(|kind| kind == of) {
                call_first(line.range(..(true, 0)));
                call_first(line.range((true, 0)..));
            }
        }
    }

    /// How many wait here.
    pub(crate) fn count(&self) -> u64 {
        self.waiting().lines.values().map(|line| line.len() as u64).sum()
    }
}

fn call_first<'a>(waiting: impl Iterator<Item = (&'a Turn, &'a Arc<Notify>)>) {
    waiting.take(CALLED).for_each(|(_, call)| call.notify_one());
}

/// One who waits.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    lines: &'a Lines,
    key: Key,
    turn: Turn,
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
            line.remove(&self.turn);
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
        let (lines, kind) = (Lines::default(), |name: &str| WorkerKind::new(name).unwrap());
        let offer = Offer::new("cdp").unwrap();
        let waiters: Vec<_> = (0..CALLED + 2).map(|_| lines.join(&kind("chromium"), &offer, false)).collect();
        let other = lines.join(&kind("firefox"), &offer, false);
        lines.call(Some(&kind("chromium")));
        let called: Vec<_> = waiters.iter().map(|waiter| waiter.called().now_or_never().is_some()).collect();
        assert_eq!(called, [true, true, true, true, false, false]);
        assert!(other.called().now_or_never().is_none());
        assert_eq!(lines.count(), 7);
        drop((waiters, other));
        assert_eq!(lines.count(), 0);
    }

    #[test]
    fn those_who_refuse_some_and_those_who_refuse_none_keep_no_call_from_each_other() {
        let (lines, kind) = (Lines::default(), WorkerKind::chromium());
        let offer = Offer::new("cdp").unwrap();
        let join = |refuses| (0..=CALLED).map(|_| lines.join(&kind, &offer, refuses)).collect::<Vec<_>>();
        let waiters = [join(true), join(false)];
        lines.call(None);
        for line in &waiters {
            let called = line.iter().filter(|waiter| waiter.called().now_or_never().is_some());
            assert_eq!(called.count(), CALLED);
        }
    }
}

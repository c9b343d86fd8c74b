//! The waits of a run's code, and the pollers to wake when they complete.
//!
//! Every await of a `Ctx` future has a key here. Its completion wakes only the last poller: a task,
//! or a branch of a join, which may be nested. So an event costs the same in a join of ten and of
//! ten thousand branches.

use std::collections::HashMap;
use std::fmt;

use tidemill_core::workflow::{ActivityResult, ChildResult, SignalDelivery};

use super::inbox::InboxMessage;
use super::ready::{Poller, ReadyQueue};

/// Set in the keys of waits that belong to no command.
pub(crate) const UNNUMBERED: u64 = 1 << 63;

/// What a wait waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    Activity(&'static str),
    LocalActivity(&'static str),
    Timer,
    Child(&'static str),
    SendSignal(&'static str),
    Signal(&'static str),
    Update(&'static str),
    Cancel,
    Task,
}

/// How a wait completed.
#[derive(Debug)]
pub(crate) enum WaitResult {
    Activity(ActivityResult),
    Child(ChildResult),
    SignalSent(SignalDelivery),
    Message(InboxMessage),
    /// It completed without a value.
    Happened,
    /// The run was asked to cancel.
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct WaitEntry {
    pub(crate) target: WaitTarget,
    /// Whether a cancel request leaves the wait alone.
    pub(crate) shielded: bool,
    /// When it began, in milliseconds.
    pub(crate) since: i64,
    /// Whether the child exists.
    started: bool,
    polled_by: Option<Poller>,
    /// Boxed, because most waits in memory are not complete.
    pub(crate) result: Option<Box<WaitResult>>,
}

#[derive(Debug, Default)]
pub(crate) struct Waits {
    open: HashMap<u64, WaitEntry>,
    /// How many waits for local activities are not complete.
    open_locals: usize,
    pub(crate) ready: ReadyQueue,
}

impl Waits {
    pub(crate) fn open(&mut self, key: u64, target: WaitTarget, shielded: bool, since: i64) {
        let wait = WaitEntry { target, shielded, since, started: false, polled_by: None, result: None };
        self.open.insert(key, wait);
        self.open_locals += usize::from(is_local(target));
    }

    /// The result of a wait, which is removed. If it is not complete, its completion wakes the
    /// current poller.
    pub(crate) fn poll(&mut self, key: u64) -> Option<(WaitTarget, WaitResult)> {
        let wait = self.open.get_mut(&key)?;
        if wait.result.is_none() {
            self.record_poll(key);
            return None;
        }
        let wait = self.remove(key)?;
        wait.result.map(|result| (wait.target, *result))
    }

    /// Whether the child exists. If not, its start wakes the current poller.
    pub(crate) fn poll_started(&mut self, key: u64) -> bool {
        let started = self.open.get(&key).is_some_and(|wait| wait.started);
        if !started {
            self.record_poll(key);
        }
        started
    }

    fn record_poll(&mut self, key: u64) {
        if let Some(wait) = self.open.get_mut(&key) {
            wait.polled_by = Some(self.ready.record_poll(wait.polled_by));
        }
    }

    /// Removes a wait, complete or not.
    pub(crate) fn remove(&mut self, key: u64) -> Option<WaitEntry> {
        let wait = self.open.remove(&key)?;
        self.ready.release(wait.polled_by);
        self.open_locals -= usize::from(is_local(wait.target) && wait.result.is_none());
        Some(wait)
    }

    /// Completes a wait and wakes its last poller. Has no effect if the wait is gone or complete:
    /// deliveries may be repeated.
    pub(crate) fn complete(&mut self, key: u64, result: WaitResult) {
        if let Some(wait) = self.open.get_mut(&key)
            && wait.result.is_none()
        {
            wait.result = Some(Box::new(result));
            self.open_locals -= usize::from(is_local(wait.target));
            let poller = wait.polled_by;
            self.ready.wake(poller);
        }
    }

    /// Records that a child exists, and wakes the last poller of its wait.
    pub(crate) fn child_started(&mut self, key: u64) {
        if let Some(wait) = self.open.get_mut(&key) {
            wait.started = true;
            let poller = wait.polled_by;
            self.ready.wake(poller);
        }
    }

    /// Whether the code waits for a local activity.
    pub(crate) fn has_locals(&self) -> bool {
        self.open_locals > 0
    }

    pub(crate) fn is_open(&self, key: u64) -> bool {
        self.open.get(&key).is_some_and(|wait| wait.result.is_none())
    }

    pub(crate) fn target(&self, key: u64) -> Option<WaitTarget> {
        self.open.get(&key).map(|wait| wait.target)
    }

    /// The incomplete waits that match, in the order in which they began.
    pub(crate) fn open_matching(&self, matches: impl Fn(&WaitEntry) -> bool) -> Vec<(u64, WaitTarget)> {
        let found = self.open.iter().filter(|(_, wait)| wait.result.is_none() && matches(wait));
        let mut found: Vec<_> = found.map(|(key, wait)| (*key, wait.target)).collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found
    }

    /// Every wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &WaitEntry)> {
        self.open.iter().map(|(key, wait)| (*key, wait))
    }
}

fn is_local(target: WaitTarget) -> bool {
    matches!(target, WaitTarget::LocalActivity(_))
}

impl fmt::Display for WaitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activity(name) => write!(f, "activity `{name}`"),
            Self::LocalActivity(name) => write!(f, "local activity `{name}`"),
            Self::Timer => f.write_str("timer"),
            Self::Child(name) => write!(f, "child workflow `{name}`"),
            Self::SendSignal(name) => write!(f, "sending signal `{name}`"),
            Self::Signal(name) => write!(f, "signal `{name}`"),
            Self::Update(name) => write!(f, "update `{name}`"),
            Self::Cancel => f.write_str("a cancel request"),
            Self::Task => f.write_str("a spawned task"),
        }
    }
}

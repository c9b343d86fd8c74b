//! What the code waits for, and who is to be polled when it comes.
//!
//! Every await of Tidemill's has a key here. What answers it wakes the one that polled it last: a task, or a branch of
//! a join within one, and so on inwards. So an event costs the same in a join of ten and of ten thousand.

use std::collections::HashMap;
use std::fmt;

use tidemill_core::workflow::{ActivityResult, ChildResult, SignalDelivery};

use super::inbox::Message;
use super::ready::{Poller, Ready};

/// Set in the keys of waits that belong to no command.
pub(crate) const OWN: u64 = 1 << 63;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Activity(&'static str),
    Local(&'static str),
    Timer,
    Child(&'static str),
    Sent(&'static str),
    Signal(&'static str),
    Update(&'static str),
    Cancel,
    Task,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Activity(ActivityResult),
    Child(ChildResult),
    Sent(SignalDelivery),
    Message(Message),
    /// It happened, and there is no more to say.
    Happened,
    /// The run was asked to cancel.
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) on: On,
    /// Not affected when the run is asked to cancel.
    pub(crate) shielded: bool,
    /// Since when, in milliseconds.
    pub(crate) since: i64,
    /// A child that exists.
    started: bool,
    polled_by: Option<Poller>,
    /// In a box, because most runs in memory wait for something that has not come.
    pub(crate) outcome: Option<Box<Outcome>>,
}

#[derive(Debug, Default)]
pub(crate) struct Waits {
    open: HashMap<u64, Wait>,
    /// How many local activities have no answer yet.
    locals: usize,
    pub(crate) ready: Ready,
}

impl Waits {
    pub(crate) fn open(&mut self, key: u64, on: On, shielded: bool, since: i64) {
        let wait = Wait { on, shielded, since, started: false, polled_by: None, outcome: None };
        self.open.insert(key, wait);
        self.locals += usize::from(is_local(on));
    }

    /// What came of the wait, which is then over; if nothing did, whoever is being polled hears of it when it does.
    pub(crate) fn poll(&mut self, key: u64) -> Option<(On, Outcome)> {
        let wait = self.open.get_mut(&key)?;
        if wait.outcome.is_none() {
            self.polled(key);
            return None;
        }
        let wait = self.close(key)?;
        wait.outcome.map(|outcome| (wait.on, *outcome))
    }

    /// Whether the child exists; if not, whoever is being polled hears of it when it does.
    pub(crate) fn poll_started(&mut self, key: u64) -> bool {
        let started = self.open.get(&key).is_some_and(|wait| wait.started);
        if !started {
            self.polled(key);
        }
        started
    }

    fn polled(&mut self, key: u64) {
        if let Some(wait) = self.open.get_mut(&key) {
            wait.polled_by = Some(self.ready.polled(wait.polled_by));
        }
    }

    /// Ends a wait, answered or not.
    pub(crate) fn close(&mut self, key: u64) -> Option<Wait> {
        let wait = self.open.remove(&key)?;
        self.ready.forget(wait.polled_by);
        self.locals -= usize::from(is_local(wait.on) && wait.outcome.is_none());
        Some(wait)
    }

    /// Answers a wait. What nobody waits for, or has been answered before, has no effect: deliveries may come twice.
    pub(crate) fn answer(&mut self, key: u64, outcome: Outcome) {
        if let Some(wait) = self.open.get_mut(&key)
            && wait.outcome.is_none()
        {
            wait.outcome = Some(Box::new(outcome));
            self.locals -= usize::from(is_local(wait.on));
            let poller = wait.polled_by;
            self.ready.wake(poller);
        }
    }

    /// A child exists.
    pub(crate) fn child_started(&mut self, key: u64) {
        if let Some(wait) = self.open.get_mut(&key) {
            wait.started = true;
            let poller = wait.polled_by;
            self.ready.wake(poller);
        }
    }

    /// Whether the code waits for a local activity.
    pub(crate) fn has_locals(&self) -> bool {
        self.locals > 0
    }

    pub(crate) fn is_open(&self, key: u64) -> bool {
        self.open.get(&key).is_some_and(|wait| wait.outcome.is_none())
    }

    pub(crate) fn on(&self, key: u64) -> Option<On> {
        self.open.get(&key).map(|wait| wait.on)
    }

    /// The waits that `wanted` wants, in the order in which they began.
    pub(crate) fn select(&self, wanted: impl Fn(&Wait) -> bool) -> Vec<(u64, On)> {
        let found = self.open.iter().filter(|(_, wait)| wait.outcome.is_none() && wanted(wait));
        let mut found: Vec<_> = found.map(|(key, wait)| (*key, wait.on)).collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found
    }

    /// Every wait that is open.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Wait)> {
        self.open.iter().map(|(key, wait)| (*key, wait))
    }
}

fn is_local(on: On) -> bool {
    matches!(on, On::Local(_))
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activity(name) => write!(f, "activity `{name}`"),
            Self::Local(name) => write!(f, "local activity `{name}`"),
            Self::Timer => f.write_str("timer"),
            Self::Child(name) => write!(f, "child workflow `{name}`"),
            Self::Sent(name) => write!(f, "sending signal `{name}`"),
            Self::Signal(name) => write!(f, "signal `{name}`"),
            Self::Update(name) => write!(f, "update `{name}`"),
            Self::Cancel => f.write_str("a cancel request"),
            Self::Task => f.write_str("a spawned task"),
        }
    }
}

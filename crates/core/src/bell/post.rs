//! One queue's line of waiting claims, and what is known of the queue. No clock and no lock of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::Pace;
use super::agenda::Agenda;
use crate::clock::Timestamp;

/// No more looks are owed than this: beyond, one look that finds nothing says it all.
const MOST: usize = 1_024;

/// So many looks in a row that left something behind, and each calls two instead of one: a backlog is then
/// taken by all who wait after a few rounds, while a single job never calls more than one in vain.
const BACKLOG: u32 = 2;

/// A place in line. Lower ones have waited longer.
pub(super) type Ticket = u64;

/// The line of one queue.
#[derive(Debug)]
pub(super) struct Post {
    tickets: Ticket,
    /// Those who wait. The first keeps watch: it alone looks when a look is due.
    line: BTreeMap<Ticket, Option<Waker>>,
    /// Those whose turn it is and who have not noticed yet.
    called: BTreeSet<Ticket>,
    /// How many looks are worth making that nobody is there to make; 0 if the queue is known to be empty.
    owed: usize,
    /// How many looks have ever been worth making. A look sees everything that was announced before it began,
    /// so this number at its beginning says how new it is.
    granted: u64,
    /// How many looks in a row have left something behind.
    backlog: u32,
    /// Whether there should be work, as opposed to might be: somebody has counted it, or left it behind.
    sure: bool,
    agenda: Agenda,
}

/// The right to look, and how much had been announced when it began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    granted: u64,
    was_called: bool,
    /// Whether there should be work.
    pub(super) sure: bool,
}

/// What somebody in line does next.
#[derive(Debug)]
pub(super) enum Duty {
    /// Look.
    Look(Start),
    /// Look at this time at the latest, if at all.
    Watch(Option<Timestamp>),
    /// Wait to be called.
    Wait,
}

/// What a look saw.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sight {
    /// There is, or may be, more than could be taken.
    More,
    /// There is nothing left before this time.
    Drained { found: bool, next: Option<Timestamp> },
}

impl Post {
    /// Nobody has looked yet, so one look is worth making.
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            tickets: 0,
            line: BTreeMap::new(),
            called: BTreeSet::new(),
            owed: 1,
            granted: 1,
            backlog: 0,
            sure: true,
            agenda: Agenda::new(pace),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Calls as many as there are jobs; says how many that were.
    pub(super) fn ring(&mut self, jobs: usize) -> usize {
        self.sure = true;
        self.agenda.quicken();
        self.grant(if jobs == usize::MAX { 1 } else { jobs })
    }

    /// Calls one to see whether there is anything.
    pub(super) fn ring_for_a_rumour(&mut self) -> usize {
        self.agenda.quicken();
        self.grant(1)
    }

    /// Takes a place at the end of the line.
    pub(super) fn enter(&mut self) -> Ticket {
        self.tickets += 1;
        self.line.insert(self.tickets, None);
        self.call();
        self.tickets
    }

    /// Gives up a place, and hands on the turn that came with it.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        if self.called.remove(&ticket) {
            self.grant(1);
        } else if self.line.remove(&ticket).is_some() {
            self.wake_watch();
        }
    }

    /// What the holder of this ticket does now. `waker` is used when that changes.
    pub(super) fn duty(&mut self, ticket: Ticket, now: Timestamp, waker: &Waker) -> Duty {
        if self.called.remove(&ticket) {
            return Duty::Look(self.start(true));
        }
        let is_first = self.line.first_key_value().is_some_and(|(first, _)| *first == ticket);
        let next = self.agenda.next();
        if is_first && next.is_some_and(|next| next <= now) {
            self.line.remove(&ticket);
            self.sure |= self.agenda.is_job_due(now);
            self.agenda.begun(now);
            self.wake_watch();
            return Duty::Look(self.start(false));
        }
        self.line.insert(ticket, Some(waker.clone()));
        if is_first { Duty::Watch(next) } else { Duty::Wait }
    }

    fn start(&self, was_called: bool) -> Start {
        Start { granted: self.granted, was_called, sure: self.sure }
    }

    /// A look has ended.
    pub(super) fn saw(&mut self, start: Start, sight: Sight, now: Timestamp) {
        match sight {
            Sight::More => {
                self.backlog = self.backlog.saturating_add(1);
                self.sure = true;
                self.agenda.saw_more(start.granted, now);
                self.grant(if self.backlog > BACKLOG { 2 } else { 1 });
            }
            Sight::Drained { found, next } => {
                self.backlog = 0;
                // Everything that was announced before the look began has been seen by it.
                let since = usize::try_from(self.granted - start.granted).unwrap_or(usize::MAX);
                self.owed = self.owed.min(since);
                self.sure &= since > 0;
                if found || start.was_called {
                    self.agenda.quicken();
                } else {
                    self.agenda.slow_down();
                }
                self.agenda.saw_end(start.granted, next, now);
            }
        }
        self.wake_watch();
    }

    /// A look has failed: somebody tries again soon. Not everybody at once, for whom it would fail too.
    pub(super) fn failed(&mut self, now: Timestamp) {
        self.granted += 1;
        self.sure = true;
        self.agenda.failed(self.granted, now);
        self.wake_watch();
    }

    /// Whoever had the turn is gone.
    pub(super) fn hand_on(&mut self) {
        self.grant(1);
    }

    fn grant(&mut self, looks: usize) -> usize {
        self.granted = self.granted.saturating_add(looks as u64);
        self.owed = self.owed.saturating_add(looks);
        let called = self.call();
        self.owed = self.owed.min(MOST);
        called
    }

    /// Calls those who wait to the looks that are owed.
    fn call(&mut self) -> usize {
        let mut called = 0;
        while self.owed > 0
            && let Some((ticket, waker)) = self.line.pop_first()
        {
            self.owed -= 1;
            self.called.insert(ticket);
            called += 1;
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        if called > 0 {
            self.wake_watch();
        }
        called
    }

    /// Tells the first in line that it keeps watch now, or until another time.
    fn wake_watch(&self) {
        if let Some((_, Some(first))) = self.line.first_key_value() {
            first.wake_by_ref();
        }
    }
}

//! One queue's line of waiting claims, and what is known of the queue. No clock and no lock of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::PollInterval;
use super::poll_schedule::PollSchedule;
use crate::clock::Timestamp;

/// No more looks are owed than this: beyond, one look that finds nothing says it all.
const MAX_OWED_POLLS: usize = 1_024;

/// So many looks in a row that left something behind, and each calls two instead of one: a backlog is then
/// taken by all who wait after a few rounds, while a single job never calls more than one in vain.
const BACKLOG_STREAK: u32 = 2;

/// A place in line. Lower ones have waited longer.
pub(super) type WaiterId = u64;

/// The line of one queue.
#[derive(Debug)]
pub(super) struct QueueWaiters {
    last_id: WaiterId,
    /// Those who wait. The first keeps watch: it alone looks when a look is due.
    waiters: BTreeMap<WaiterId, Option<Waker>>,
    /// Those whose turn it is and who have not noticed yet.
    permitted: BTreeSet<WaiterId>,
    /// How many looks are worth making that nobody is there to make; 0 if the queue is known to be empty.
    owed: usize,
    /// How many looks have ever been worth making. A look sees everything that was announced before it began,
    /// so this number at its beginning says how new it is.
    granted: u64,
    /// How many looks in a row have left something behind.
    backlog: u32,
    /// Whether there should be work, as opposed to might be: somebody has counted it, or left it behind.
    expects_work: bool,
    schedule: PollSchedule,
}

/// The right to look, and how much had been announced when it began.
#[derive(Debug, Clone, Copy)]
pub(super) struct PollStart {
    granted: u64,
    was_notified: bool,
    /// Whether there should be work.
    pub(super) expects_work: bool,
}

/// What somebody in line does next.
#[derive(Debug)]
pub(super) enum NextAction {
    /// Look.
    Poll(PollStart),
    /// Look at this time at the latest, if at all.
    PollAt(Option<Timestamp>),
    /// Wait to be called.
    Wait,
}

/// What a look saw.
#[derive(Debug, Clone, Copy)]
pub(super) enum PollResult {
    /// There is, or may be, more than could be taken.
    More,
    /// There is nothing left before this time.
    Drained { found: bool, next: Option<Timestamp> },
}

impl QueueWaiters {
    /// Nobody has looked yet, so one look is worth making.
    pub(super) fn new(pace: PollInterval) -> Self {
        Self {
            last_id: 0,
            waiters: BTreeMap::new(),
            permitted: BTreeSet::new(),
            owed: 1,
            granted: 1,
            backlog: 0,
            expects_work: true,
            schedule: PollSchedule::new(pace),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Calls as many as there are jobs; says how many that were.
    pub(super) fn notify(&mut self, jobs: usize) -> usize {
        self.expects_work = true;
        self.schedule.speed_up();
        self.grant(if jobs == usize::MAX { 1 } else { jobs })
    }

    /// Calls one to see whether there is anything.
    pub(super) fn notify_speculative(&mut self) -> usize {
        self.schedule.speed_up();
        self.grant(1)
    }

    /// Takes a place at the end of the line.
    pub(super) fn enter(&mut self) -> WaiterId {
        self.last_id += 1;
        self.waiters.insert(self.last_id, None);
        self.wake_waiters();
        self.last_id
    }

    /// Gives up a place, and hands on the turn that came with it.
    pub(super) fn leave(&mut self, ticket: WaiterId) {
        if self.permitted.remove(&ticket) {
            self.grant(1);
        } else if self.waiters.remove(&ticket).is_some() {
            self.wake_first();
        }
    }

    /// What the holder of this ticket does now. `waker` is used when that changes.
    pub(super) fn next_action(&mut self, ticket: WaiterId, now: Timestamp, waker: &Waker) -> NextAction {
        if self.permitted.remove(&ticket) {
            return NextAction::Poll(self.start(true));
        }
        let is_first = self.waiters.first_key_value().is_some_and(|(first, _)| *first == ticket);
        let next = self.schedule.next();
        if is_first && next.is_some_and(|next| next <= now) {
            self.waiters.remove(&ticket);
            self.expects_work |= self.schedule.is_job_due(now);
            self.schedule.poll_started(now);
            self.wake_first();
            return NextAction::Poll(self.start(false));
        }
        self.waiters.insert(ticket, Some(waker.clone()));
        if is_first { NextAction::PollAt(next) } else { NextAction::Wait }
    }

    fn start(&self, was_called: bool) -> PollStart {
        PollStart { granted: self.granted, was_notified: was_called, expects_work: self.expects_work }
    }

    /// A look has ended.
    pub(super) fn poll_ended(&mut self, start: PollStart, sight: PollResult, now: Timestamp) {
        match sight {
            PollResult::More => {
                self.backlog = self.backlog.saturating_add(1);
                self.expects_work = true;
                self.schedule.found_more(start.granted, now);
                self.grant(if self.backlog > BACKLOG_STREAK { 2 } else { 1 });
            }
            PollResult::Drained { found, next } => {
                self.backlog = 0;
                // Everything that was announced before the look began has been seen by it.
                let since = usize::try_from(self.granted - start.granted).unwrap_or(usize::MAX);
                self.owed = self.owed.min(since);
                self.expects_work &= since > 0;
                if found || start.was_notified {
                    self.schedule.speed_up();
                } else {
                    self.schedule.slow_down();
                }
                self.schedule.drained(start.granted, next, now);
            }
        }
        self.wake_first();
    }

    /// A look has failed: somebody tries again soon. Not everybody at once, for whom it would fail too.
    pub(super) fn poll_failed(&mut self, now: Timestamp) {
        self.granted += 1;
        self.expects_work = true;
        self.schedule.failed(self.granted, now);
        self.wake_first();
    }

    /// Whoever had the turn is gone.
    pub(super) fn pass_permit(&mut self) {
        self.grant(1);
    }

    fn grant(&mut self, looks: usize) -> usize {
        self.granted = self.granted.saturating_add(looks as u64);
        self.owed = self.owed.saturating_add(looks);
        let called = self.wake_waiters();
        self.owed = self.owed.min(MAX_OWED_POLLS);
        called
    }

    /// Calls those who wait to the looks that are owed.
    fn wake_waiters(&mut self) -> usize {
        let mut called = 0;
        while self.owed > 0
            && let Some((ticket, waker)) = self.waiters.pop_first()
        {
            self.owed -= 1;
            self.permitted.insert(ticket);
            called += 1;
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        if called > 0 {
            self.wake_first();
        }
        called
    }

    /// Tells the first in line that it keeps watch now, or until another time.
    fn wake_first(&self) {
        if let Some((_, Some(first))) = self.waiters.first_key_value() {
            first.wake_by_ref();
        }
    }
}

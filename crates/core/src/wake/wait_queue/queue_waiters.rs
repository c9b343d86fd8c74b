//! The waiters of one queue and what is known about the queue. Has no clock and no lock of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::PollInterval;
use super::poll_schedule::PollSchedule;
use crate::clock::Timestamp;

/// The bound on owed polls: beyond it, one poll that finds nothing answers for all.
const MAX_OWED_POLLS: usize = 1_024;

/// After this many polls in a row that left work behind, each wakes two waiters instead of one. So
/// all waiters share a backlog after a few rounds, while a single job never wakes more than one
/// waiter in vain.
const BACKLOG_STREAK: u32 = 2;

/// The number of a waiter. Lower numbers have waited longer.
pub(super) type WaiterId = u64;

/// The waiters of one queue.
#[derive(Debug)]
pub(super) struct QueueWaiters {
    last_id: WaiterId,
    /// The waiting claims. Only the first polls when the schedule says so.
    waiters: BTreeMap<WaiterId, Option<Waker>>,
    /// Waiters that have a permit and have not noticed yet.
    permitted: BTreeSet<WaiterId>,
    /// Polls that are worthwhile but have no waiter to make them; 0 if the queue is known to be
    /// empty.
    owed: usize,
    /// How many polls have ever been worthwhile. A poll sees all work that was announced before it
    /// began, so this number at its start says how recent its result is.
    granted: u64,
    /// How many polls in a row left work behind.
    backlog: u32,
    /// Whether work is expected: a notification counted it, or a poll left it behind.
    expects_work: bool,
    schedule: PollSchedule,
}

/// A permit as it was given out: the state of the queue at the start of the poll.
#[derive(Debug, Clone, Copy)]
pub(super) struct PollStart {
    granted: u64,
    was_notified: bool,
    /// Whether work was expected.
    pub(super) expects_work: bool,
}

/// What a waiter does next.
#[derive(Debug)]
pub(super) enum NextAction {
    /// Poll now.
    Poll(PollStart),
    /// Poll at this time, if there is one, unless it is woken before.
    PollAt(Option<Timestamp>),
    /// Wait until it is woken.
    Wait,
}

/// The result of a poll.
#[derive(Debug, Clone, Copy)]
pub(super) enum PollResult {
    /// The queue has, or may have, more than the poll took.
    More,
    /// Nothing is left before `next`.
    Drained { found: bool, next: Option<Timestamp> },
}

impl QueueWaiters {
    /// No poll has been made yet, so one is worthwhile.
    pub(super) fn new(interval: PollInterval) -> Self {
        Self {
            last_id: 0,
            waiters: BTreeMap::new(),
            permitted: BTreeSet::new(),
            owed: 1,
            granted: 1,
            backlog: 0,
            expects_work: true,
            schedule: PollSchedule::new(interval),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Wakes up to `jobs` waiters and returns how many.
    pub(super) fn notify(&mut self, jobs: usize) -> usize {
        self.expects_work = true;
        self.schedule.speed_up();
        self.grant(if jobs == usize::MAX { 1 } else { jobs })
    }

    /// Wakes one waiter to check whether there is work.
    pub(super) fn notify_speculative(&mut self) -> usize {
        self.schedule.speed_up();
        self.grant(1)
    }

    /// Adds a waiter at the end.
    pub(super) fn enter(&mut self) -> WaiterId {
        self.last_id += 1;
        self.waiters.insert(self.last_id, None);
        self.wake_waiters();
        self.last_id
    }

    /// Removes a waiter; a permit that it had goes to the next one.
    pub(super) fn leave(&mut self, id: WaiterId) {
        if self.permitted.remove(&id) {
            self.grant(1);
        } else if self.waiters.remove(&id).is_some() {
            self.wake_first();
        }
    }

    /// What this waiter does now. `waker` is called when the answer changes.
    pub(super) fn next_action(&mut self, id: WaiterId, now: Timestamp, waker: &Waker) -> NextAction {
        if self.permitted.remove(&id) {
            return NextAction::Poll(self.start(true));
        }
        let is_first = self.waiters.first_key_value().is_some_and(|(first, _)| *first == id);
        let next = self.schedule.next();
        if is_first && next.is_some_and(|next| next <= now) {
            self.waiters.remove(&id);
            self.expects_work |= self.schedule.is_job_due(now);
            self.schedule.poll_started(now);
            self.wake_first();
            return NextAction::Poll(self.start(false));
        }
        self.waiters.insert(id, Some(waker.clone()));
        if is_first { NextAction::PollAt(next) } else { NextAction::Wait }
    }

    fn start(&self, was_notified: bool) -> PollStart {
        PollStart { granted: self.granted, was_notified, expects_work: self.expects_work }
    }

    /// Records the result of a poll.
    pub(super) fn poll_ended(&mut self, start: PollStart, result: PollResult, now: Timestamp) {
        match result {
            PollResult::More => {
                self.backlog = self.backlog.saturating_add(1);
                self.expects_work = true;
                self.schedule.found_more(start.granted, now);
                self.grant(if self.backlog > BACKLOG_STREAK { 2 } else { 1 });
            }
            PollResult::Drained { found, next } => {
                self.backlog = 0;
                // The poll has seen everything that was announced before it began.
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

    /// Records a failed poll: one waiter tries again soon. Not all at once, because they would fail
    /// too.
    pub(super) fn poll_failed(&mut self, now: Timestamp) {
        self.granted += 1;
        self.expects_work = true;
        self.schedule.failed(self.granted, now);
        self.wake_first();
    }

    /// The holder of a permit left without polling.
    pub(super) fn pass_permit(&mut self) {
        self.grant(1);
    }

    fn grant(&mut self, polls: usize) -> usize {
        self.granted = self.granted.saturating_add(polls as u64);
        self.owed = self.owed.saturating_add(polls);
        let woken = self.wake_waiters();
        self.owed = self.owed.min(MAX_OWED_POLLS);
        woken
    }

    /// Gives the owed polls to waiters and wakes them.
    fn wake_waiters(&mut self) -> usize {
        let mut woken = 0;
        while self.owed > 0
            && let Some((id, waker)) = self.waiters.pop_first()
        {
            self.owed -= 1;
            self.permitted.insert(id);
            woken += 1;
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        if woken > 0 {
            self.wake_first();
        }
        woken
    }

    /// Wakes the first waiter, because it became the first or the schedule changed.
    fn wake_first(&self) {
        if let Some((_, Some(first))) = self.waiters.first_key_value() {
            first.wake_by_ref();
        }
    }
}

//! Waiting in line for the turn to look, and saying what was seen.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::queue_waiters::{NextAction, PollResult, PollStart, WaiterId};
use super::{QueueWaiters, WaitQueues};
use crate::clock::{Clock, Timestamp};
use crate::name::Queue;
use crate::store::{Claimed, Error};

/// What a look at a queue found.
#[derive(Debug, Default)]
pub struct Polled {
    /// The jobs it took.
    pub jobs: Vec<Claimed>,
    /// Whether there is, or may be, more right now.
    pub more: bool,
    /// When the next job is due, if there is one.
    pub next: Option<Timestamp>,
}

/// The right to look at a queue. Dropped before it is used up, it goes to the next in line.
#[must_use = "whoever has the turn looks"]
#[derive(Debug)]
pub struct PollPermit<'b> {
    wait_queues: &'b WaitQueues,
    queue: &'b Queue,
    clock: &'b dyn Clock,
    start: Option<PollStart>,
}

impl PollPermit<'_> {
    /// Whether there only might be work: nobody has counted any. Where a cheap look goes before an expensive
    /// one, this is when.
    pub fn is_speculative(&self) -> bool {
        self.start.is_some_and(|start| !start.expects_work)
    }

    /// Ends the turn with what the look came to.
    pub fn finish(mut self, found: Result<Polled, Error>) -> Result<Vec<Claimed>, Error> {
        let (start, now) = (self.start.take(), self.clock.now());
        self.wait_queues.with_queue(self.queue, |post| match (&found, start) {
            (Ok(found), Some(start)) => post.poll_ended(start, found.result(), now),
            _ => post.poll_failed(now),
        });
        Ok(found?.jobs)
    }
}

impl Polled {
    fn result(&self) -> PollResult {
        if self.more {
            return PollResult::More;
        }
        PollResult::Drained { found: !self.jobs.is_empty(), next: self.next }
    }
}

impl Drop for PollPermit<'_> {
    fn drop(&mut self) {
        if self.start.is_some() {
            self.wait_queues.with_queue(self.queue, QueueWaiters::pass_permit);
        }
    }
}

/// Waits for the turn.
pub(super) async fn wait<'b>(
    wait_queues: &'b WaitQueues,
    queue: &'b Queue,
    clock: &'b dyn Clock,
) -> PollPermit<'b> {
    wait_queues.crowd.join();
    let ticket = wait_queues.with_queue(queue, QueueWaiters::enter);
    let mut place = Waiter { wait_queues, queue, clock, ticket, alarm: None };
    let start = poll_fn(|cx| place.poll(cx)).await;
    PollPermit { wait_queues, queue, clock, start: Some(start) }
}

/// A place in line, given up when dropped.
struct Waiter<'b> {
    wait_queues: &'b WaitQueues,
    queue: &'b Queue,
    clock: &'b dyn Clock,
    ticket: WaiterId,
    /// Set while this is the first in line, and for when.
    alarm: Option<(Timestamp, Sleep)>,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Waiter<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PollStart> {
        loop {
            let now = self.clock.now();
            let due = match self
                .wait_queues
                .with_queue(self.queue, |post| post.next_action(self.ticket, now, cx.waker()))
            {
                NextAction::Poll(start) => return Poll::Ready(start),
                NextAction::PollAt(due) => due,
                NextAction::Wait => None,
            };
            self.set_alarm(due);
            let Some((_, alarm)) = &mut self.alarm else { return Poll::Pending };
            ready!(alarm.as_mut().poll(cx));
            self.alarm = None;
        }
    }

    fn set_alarm(&mut self, due: Option<Timestamp>) {
        if self.alarm.as_ref().map(|(set_for, _)| *set_for) != due {
            self.alarm = due.map(|due| (due, self.sleep_until(due)));
        }
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        loop {
            let now = self.clock.now();
            // A clock that is set back must not put off the regular look.
            let sleep = self.clock.sleep(now.until(due).min(self.wait_queues.pace.longest()));
            // A clock that was advanced between the two would let us sleep too long.
            if self.clock.now() == now {
                return sleep;
            }
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.wait_queues.with_queue(self.queue, |post| post.leave(self.ticket));
        self.wait_queues.crowd.leave();
    }
}

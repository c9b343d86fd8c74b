//! The poll permit: waiting for it, and reporting the result of the poll.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::queue_waiters::{NextAction, PollResult, PollStart, WaiterId};
use super::{QueueWaiters, WaitQueues};
use crate::clock::{Clock, Timestamp};
use crate::name::Queue;
use crate::store::{Claimed, Error};
use crate::wake::ListenGuard;

/// What a poll of a queue found.
#[derive(Debug, Default)]
pub struct Polled {
    /// The claimed jobs.
    pub jobs: Vec<Claimed>,
    /// Whether the queue has, or may have, more claimable jobs now.
    pub more: bool,
    /// When the next scheduled job is due, if there is one.
    pub next: Option<Timestamp>,
}

/// The right to poll a queue. If it is dropped before [`finish`](Self::finish), the next waiter
/// gets it.
#[must_use = "the holder of the permit polls"]
#[derive(Debug)]
pub struct PollPermit<'b> {
    wait_queues: &'b WaitQueues,
    queue: &'b Queue,
    clock: &'b dyn Clock,
    start: Option<PollStart>,
}

impl PollPermit<'_> {
    /// Whether work is possible but not announced. A store that can make a cheap check first makes
    /// it in this case.
    pub fn is_speculative(&self) -> bool {
        self.start.is_some_and(|start| !start.expects_work)
    }

    /// Returns the permit with the result of the poll.
    pub fn finish(mut self, result: Result<Polled, Error>) -> Result<Vec<Claimed>, Error> {
        let (start, now) = (self.start.take(), self.clock.now());
        self.wait_queues.with_queue(self.queue, |waiters| match (&result, start) {
            (Ok(polled), Some(start)) => waiters.poll_ended(start, polled.result(), now),
            _ => waiters.poll_failed(now),
        });
        Ok(result?.jobs)
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

/// Waits for a permit.
pub(super) async fn wait<'b>(
    wait_queues: &'b WaitQueues,
    queue: &'b Queue,
    clock: &'b dyn Clock,
) -> PollPermit<'b> {
    let counted = ListenGuard::new(&wait_queues.waiting_claims);
    let id = wait_queues.with_queue(queue, QueueWaiters::enter);
    let mut waiter = PermitWaiter { wait_queues, queue, clock, id, timer: None, _counted: counted };
    let start = poll_fn(|cx| waiter.poll(cx)).await;
    PollPermit { wait_queues, queue, clock, start: Some(start) }
}

/// An entry in the wait queue, removed on drop.
struct PermitWaiter<'b> {
    wait_queues: &'b WaitQueues,
    queue: &'b Queue,
    clock: &'b dyn Clock,
    id: WaiterId,
    /// The timer of the next poll and its due time; set only while this is the first waiter.
    timer: Option<(Timestamp, Sleep)>,
    /// Counts this claim among the waiting ones.
    _counted: ListenGuard,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl PermitWaiter<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PollStart> {
        loop {
            let now = self.clock.now();
            let due = match self
                .wait_queues
                .with_queue(self.queue, |waiters| waiters.next_action(self.id, now, cx.waker()))
            {
                NextAction::Poll(start) => return Poll::Ready(start),
                NextAction::PollAt(due) => due,
                NextAction::Wait => None,
            };
            self.set_timer(due);
            let Some((_, timer)) = &mut self.timer else { return Poll::Pending };
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
        }
    }

    fn set_timer(&mut self, due: Option<Timestamp>) {
        if self.timer.as_ref().map(|(set_for, _)| *set_for) != due {
            let longest = self.wait_queues.interval.longest();
            self.timer = due.map(|due| (due, self.clock.sleep_until(due, longest)));
        }
    }
}

impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        self.wait_queues.with_queue(self.queue, |waiters| waiters.leave(self.id));
    }
}

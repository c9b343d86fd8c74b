//! Waiting in line for the turn to look, and saying what was seen.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::post::{Duty, Sight, Start, Ticket};
use super::{Bells, Post};
use crate::clock::{Clock, Timestamp};
use crate::name::Queue;
use crate::store::{Claimed, Error};

/// What a look at a queue found.
#[derive(Debug, Default)]
pub struct Found {
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
pub struct Turn<'b> {
    bells: &'b Bells,
    queue: &'b Queue,
    clock: &'b dyn Clock,
    start: Option<Start>,
}

impl Turn<'_> {
    /// Whether there only might be work: nobody has counted any. Where a cheap look goes before an expensive
    /// one, this is when.
    pub fn is_on_rumour(&self) -> bool {
        self.start.is_some_and(|start| !start.sure)
    }

    /// Ends the turn with what the look came to.
    pub fn end(mut self, found: Result<Found, Error>) -> Result<Vec<Claimed>, Error> {
        let (start, now) = (self.start.take(), self.clock.now());
        self.bells.at(self.queue, |post| match (&found, start) {
            (Ok(found), Some(start)) => post.saw(start, found.sight(), now),
            _ => post.failed(now),
        });
        Ok(found?.jobs)
    }
}

impl Found {
    fn sight(&self) -> Sight {
        if self.more {
            return Sight::More;
        }
        Sight::Drained { found: !self.jobs.is_empty(), next: self.next }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.start.is_some() {
            self.bells.at(self.queue, Post::hand_on);
        }
    }
}

/// Waits for the turn.
pub(super) async fn wait<'b>(bells: &'b Bells, queue: &'b Queue, clock: &'b dyn Clock) -> Turn<'b> {
    bells.crowd.join();
    let ticket = bells.at(queue, Post::enter);
    let mut place = Place { bells, queue, clock, ticket, alarm: None };
    let start = poll_fn(|cx| place.poll(cx)).await;
    Turn { bells, queue, clock, start: Some(start) }
}

/// A place in line, given up when dropped.
struct Place<'b> {
    bells: &'b Bells,
    queue: &'b Queue,
    clock: &'b dyn Clock,
    ticket: Ticket,
    /// Set while this is the first in line, and for when.
    alarm: Option<(Timestamp, Sleep)>,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Place<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Start> {
        loop {
            let now = self.clock.now();
            let due = match self.bells.at(self.queue, |post| post.duty(self.ticket, now, cx.waker())) {
                Duty::Look(start) => return Poll::Ready(start),
                Duty::Watch(due) => due,
                Duty::Wait => None,
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
            let sleep = self.clock.sleep(now.until(due).min(self.bells.pace.longest()));
            // A clock that was advanced between the two would let us sleep too long.
            if self.clock.now() == now {
                return sleep;
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.bells.at(self.queue, |post| post.leave(self.ticket));
        self.bells.crowd.leave();
    }
}

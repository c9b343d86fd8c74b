//! One stream of wake-ups for everybody who waits for an end, so that each is woken for its own end and not for whatever
//! happens in the process.
//!
//! There is no task here to read the stream: those who wait do. The stream calls one of them, who reads all there is and
//! wakes those it concerns. Nothing is lost on the way, because of three rules:
//!
//! - The stream is open from before the first look of whoever waits until the last of them has gone.
//! - While the stream may hold something unread ([`Desk::stirred`]), somebody who sleeps has been called for it; if that one
//!   goes without having read, it calls another; and whoever is polled for another reason reads first.
//! - Whoever finds the stream taken may sleep: who has taken it looks, after letting go, whether it has stirred since.
//!
//! The desk's lock is never held while the stream is opened, read or dropped, nor while anybody is woken: all of these may
//! take locks under which the stream calls us.

mod roll;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Wake as Call, Waker};

use self::roll::{Roll, Ticket};
use crate::name::JobId;
use crate::store::{Wake, Wakes};

/// How many wake-ups one waiter reads in one go: its own task has other things to do.
const AT_ONCE: usize = 256;

/// Where everybody waits who waits for an end at one store.
pub(super) struct Lookout {
    listen: Box<dyn Fn() -> Wakes + Send + Sync>,
    desk: Mutex<Desk>,
    /// What the stream wakes.
    caller: Waker,
}

#[derive(Default)]
struct Desk {
    roll: Roll,
    /// Locked by the one who reads, and only ever tried.
    wakes: Option<Arc<Mutex<Wakes>>>,
    /// Whether there may be something in the stream that nobody has read.
    stirred: bool,
    /// Whether a stream was ever opened.
    used: bool,
}

/// Somebody who waits for an end. Hears of it from its creation on.
pub(super) struct Waiter {
    lookout: Arc<Lookout>,
    ticket: Ticket,
}

/// Completes when there is news. If it is dropped, nothing is lost: the next one completes.
pub(super) struct News<'a>(&'a Waiter);

/// The stream's way to the lookout.
struct Caller(Weak<Lookout>);

impl Call for Caller {
    fn wake(self: Arc<Self>) {
        if let Some(lookout) = self.0.upgrade() {
            lookout.stir();
        }
    }
}

impl Lookout {
    /// A lookout that opens its streams with `listen`.
    pub(super) fn new(listen: impl Fn() -> Wakes + Send + Sync + 'static) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            listen: Box::new(listen),
            desk: Mutex::default(),
            caller: Arc::new(Caller(this.clone())).into(),
        })
    }

    /// Waits, from now on, for the end of this job, whose id is its chain's.
    pub(super) fn wait_for(self: &Arc<Self>, job: JobId) -> Waiter {
        let ticket = self.desk().roll.enter(job);
        let waiter = Waiter { lookout: self.clone(), ticket };
        // From here on a stream that is open stays open.
        if self.desk().wakes.is_none() {
            self.open();
        }
        waiter
    }

    /// Whether anybody has ever waited here.
    pub(super) fn is_used(&self) -> bool {
        self.desk().used
    }

    /// Opens the stream. If another does so at the same time, the later is spare: neither has looked yet.
    fn open(&self) {
        let fresh = Arc::new(Mutex::new((self.listen)()));
        let mut desk = self.desk();
        desk.used = true;
        if desk.wakes.is_none() {
            (desk.wakes, desk.stirred) = (Some(fresh), true);
        } else {
            drop(desk);
            drop(fresh);
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the stream has something, and calls somebody to read it.
    fn stir(&self) {
        let called = self.desk().stir();
        called.into_iter().for_each(Waker::wake);
    }

    /// Calls somebody if there is something to read.
    fn call(&self) {
        let called = self.desk().call();
        called.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, ticket: &Ticket, waker: &Waker) -> Poll<()> {
        match self.lie_down(ticket, waker.clone()) {
            Poll::Ready(()) => return Poll::Ready(()),
            Poll::Pending => self.read(),
        }
        if self.desk().roll.take_news(ticket) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Sleeps if there is no news. Before reading: whoever reads meanwhile wakes only those who sleep.
    fn lie_down(&self, ticket: &Ticket, waker: Waker) -> Poll<()> {
        let mut desk = self.desk();
        if desk.roll.take_news(ticket) {
            return Poll::Ready(());
        }
        let before = desk.roll.sleep(ticket, waker);
        drop(desk);
        drop(before);
        Poll::Pending
    }

    /// Reads the stream if there is something in it and nobody else reads.
    fn read(&self) {
        let Some(wakes) = self.desk().unread() else { return };
        let mut taken = match wakes.try_lock() {
            Ok(taken) => taken,
            Err(TryLockError::Poisoned(taken)) => taken.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.desk().stirred = false;
        self.read_on(&mut taken);
        drop(taken);
        self.call();
    }

    fn read_on(&self, wakes: &mut Wakes) {
        let mut cx = Context::from_waker(&self.caller);
        for _ in 0..AT_ONCE {
            match wakes.as_mut().poll_next(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Some(wake)) => self.pass_on(&wake),
                Poll::Ready(None) => {
                    // Again in this order: first listen, then look.
                    *wakes = (self.listen)();
                    self.pass_on(&Wake::Everything);
                    break;
                }
            }
        }
        self.desk().stirred = true;
    }

    fn pass_on(&self, wake: &Wake) {
        let woken = match wake {
            Wake::Finished(job) => self.desk().roll.tell(&job.chain()),
            Wake::Everything => self.desk().roll.tell_everyone(),
            Wake::Queue { .. } | Wake::Sooner(_) | Wake::Cancel(_) | Wake::Lost(_) => return,
            Wake::Member(_) | Wake::Places(_) | Wake::Session(_) => return,
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// It does not sleep any more, and if it was called it will not come.
    fn rise(&self, ticket: &Ticket) {
        let slept = self.desk().roll.rise(ticket);
        drop(slept);
        self.call();
    }

    fn leave(&self, ticket: &Ticket) {
        let left = self.desk().leave(ticket);
        drop(left);
        self.call();
    }
}

impl Desk {
    fn unread(&self) -> Option<Arc<Mutex<Wakes>>> {
        if self.stirred { self.wakes.clone() } else { None }
    }

    fn stir(&mut self) -> Option<Waker> {
        self.stirred = true;
        self.call()
    }

    fn call(&mut self) -> Option<Waker> {
        if self.stirred { self.roll.call() } else { None }
    }

    /// Strikes it off the roll; returns what is to be dropped when the desk is free again: the last one closes the stream.
    fn leave(&mut self, ticket: &Ticket) -> (Option<Waker>, Option<Arc<Mutex<Wakes>>>) {
        let slept = self.roll.leave(ticket);
        let closed = if self.roll.is_empty() { self.wakes.take() } else { None };
        (slept, closed)
    }
}

impl Waiter {
    /// Completes when there is news: the end, something that may be it, or nothing that anybody can be sure of.
    pub(super) fn news(&mut self) -> News<'_> {
        News(self)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.lookout.leave(&self.ticket);
    }
}

impl Future for News<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.lookout.poll(&self.0.ticket, cx.waker())
    }
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        self.0.lookout.rise(&self.0.ticket);
    }
}

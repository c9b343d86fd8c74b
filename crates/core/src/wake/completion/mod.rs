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

#[cfg(test)]
mod tests;
mod waiters;
mod watch;

pub use watch::CompletionWatch;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Wake as Call, Waker};

use self::waiters::{WaiterKey, Waiters};
use crate::name::JobId;
use crate::wake::{Wake, WakeStream};

/// How many wake-ups one waiter reads in one go: its own task has other things to do.
const MAX_WAKES_PER_POLL: usize = 256;

/// Where everybody waits who waits for an end at one store.
pub(crate) struct CompletionWaiters {
    listen: Box<dyn Fn() -> WakeStream + Send + Sync>,
    state: Mutex<WaitersState>,
    /// What the stream wakes.
    caller: Waker,
}

#[derive(Default)]
struct WaitersState {
    roll: Waiters,
    /// Locked by the one who reads, and only ever tried.
    wakes: Option<Arc<Mutex<WakeStream>>>,
    /// Whether there may be something in the stream that nobody has read.
    stirred: bool,
    /// Whether a stream was ever opened.
    used: bool,
}

/// Somebody who waits for an end. Hears of it from its creation on.
pub(super) struct CompletionWaiter {
    completions: Arc<CompletionWaiters>,
    ticket: WaiterKey,
}

/// Completes when there is news. If it is dropped, nothing is lost: the next one completes.
pub(super) struct Notified<'a>(&'a CompletionWaiter);

/// The stream's way to the completions.
struct StreamWaker(Weak<CompletionWaiters>);

impl Call for StreamWaker {
    fn wake(self: Arc<Self>) {
        if let Some(completions) = self.0.upgrade() {
            completions.stream_ready();
        }
    }
}

impl CompletionWaiters {
    /// A completions that opens its streams with `listen`.
    pub(crate) fn new(listen: impl Fn() -> WakeStream + Send + Sync + 'static) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            listen: Box::new(listen),
            state: Mutex::default(),
            caller: Arc::new(StreamWaker(this.clone())).into(),
        })
    }

    /// Waits, from now on, for the end of this job, whose id is its chain's.
    pub(super) fn wait_for(self: &Arc<Self>, job: JobId) -> CompletionWaiter {
        let ticket = self.desk().roll.insert(job);
        let waiter = CompletionWaiter { completions: self.clone(), ticket };
        // From here on a stream that is open stays open.
        if self.desk().wakes.is_none() {
            self.open();
        }
        waiter
    }

    /// Whether anybody has ever waited here.
    pub(crate) fn is_used(&self) -> bool {
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

    fn desk(&self) -> MutexGuard<'_, WaitersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the stream has something, and calls somebody to read it.
    fn stream_ready(&self) {
        let called = self.desk().stir();
        called.into_iter().for_each(Waker::wake);
    }

    /// Calls somebody if there is something to read.
    fn call(&self) {
        let called = self.desk().call();
        called.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, ticket: &WaiterKey, waker: &Waker) -> Poll<()> {
        match self.park(ticket, waker.clone()) {
            Poll::Ready(()) => return Poll::Ready(()),
            Poll::Pending => self.read(),
        }
        if self.desk().roll.take_notice(ticket) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Sleeps if there is no news. Before reading: whoever reads meanwhile wakes only those who sleep.
    fn park(&self, ticket: &WaiterKey, waker: Waker) -> Poll<()> {
        let mut desk = self.desk();
        if desk.roll.take_notice(ticket) {
            return Poll::Ready(());
        }
        let before = desk.roll.park(ticket, waker);
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

    fn read_on(&self, wakes: &mut WakeStream) {
        let mut cx = Context::from_waker(&self.caller);
        for _ in 0..MAX_WAKES_PER_POLL {
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
            Wake::Finished(job) => self.desk().roll.notify(&job.chain()),
            Wake::Everything => self.desk().roll.notify_all(),
            Wake::Queue { .. } | Wake::DueEarlier(_) | Wake::Cancel(_) | Wake::LeaseLost(_) => return,
            Wake::Worker(_) | Wake::Capacity(_) | Wake::Session(_) => return,
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// It does not sleep any more, and if it was called it will not come.
    fn unpark(&self, ticket: &WaiterKey) {
        let slept = self.desk().roll.unpark(ticket);
        drop(slept);
        self.call();
    }

    fn leave(&self, ticket: &WaiterKey) {
        let left = self.desk().leave(ticket);
        drop(left);
        self.call();
    }
}

impl WaitersState {
    fn unread(&self) -> Option<Arc<Mutex<WakeStream>>> {
        if self.stirred { self.wakes.clone() } else { None }
    }

    fn stir(&mut self) -> Option<Waker> {
        self.stirred = true;
        self.call()
    }

    fn call(&mut self) -> Option<Waker> {
        if self.stirred { self.roll.pick_reader() } else { None }
    }

    /// Strikes it off the roll; returns what is to be dropped when the desk is free again: the last one closes the stream.
    fn leave(&mut self, ticket: &WaiterKey) -> (Option<Waker>, Option<Arc<Mutex<WakeStream>>>) {
        let slept = self.roll.remove(ticket);
        let closed = if self.roll.is_empty() { self.wakes.take() } else { None };
        (slept, closed)
    }
}

impl CompletionWaiter {
    /// Completes when there is news: the end, something that may be it, or nothing that anybody can be sure of.
    pub(super) fn notified(&mut self) -> Notified<'_> {
        Notified(self)
    }
}

impl Drop for CompletionWaiter {
    fn drop(&mut self) {
        self.completions.leave(&self.ticket);
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.completions.poll(&self.0.ticket, cx.waker())
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.0.completions.unpark(&self.0.ticket);
    }
}

//! Completion waiters: tasks that wait for the end of a job share one stream of wake-ups, and each
//! is woken only for its own job.
//!
//! No task of this module reads the stream; the waiters do. The stream wakes one of them, which
//! reads everything available and wakes the waiters concerned. Three rules keep wake-ups from being
//! lost:
//!
//! - The stream is open from before the first read of a job by any waiter until the last waiter has
//!   left.
//! - While the stream may have unread items (`unread` is set), a parked waiter has been woken for
//!   it. If that waiter leaves without reading, it wakes another. A waiter that is polled for
//!   another reason reads first.
//! - A waiter that finds the stream locked may park: the reader checks for new items after it has
//!   unlocked the stream.
//!
//! The state's lock is never held while the stream is opened, read or dropped, nor while a waker is
//! called or dropped. All of these may take locks under which the stream calls this module.

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

/// How many wake-ups one waiter reads at a time: its own task has other work.
const MAX_WAKES_PER_POLL: usize = 256;

/// All tasks of a client that wait for the end of a job.
pub(crate) struct CompletionWaiters {
    subscribe: Box<dyn Fn() -> WakeStream + Send + Sync>,
    state: Mutex<WaitersState>,
    /// The waker of the stream.
    stream_waker: Waker,
}

#[derive(Default)]
struct WaitersState {
    waiters: Waiters,
    /// Locked by the reader, with `try_lock` only.
    wakes: Option<Arc<Mutex<WakeStream>>>,
    /// Whether the stream may have items that no waiter has read.
    unread: bool,
    /// Whether a stream was ever opened.
    was_used: bool,
}

/// A registration for the end of one job. It is notified of everything after its creation.
pub(super) struct CompletionWaiter {
    completions: Arc<CompletionWaiters>,
    key: WaiterKey,
}

/// Completes on a notification. If it is dropped, nothing is lost: the next one completes.
pub(super) struct Notified<'a>(&'a CompletionWaiter);

/// The stream's way to the waiters.
struct StreamWaker(Weak<CompletionWaiters>);

impl Call for StreamWaker {
    fn wake(self: Arc<Self>) {
        if let Some(completions) = self.0.upgrade() {
            completions.stream_ready();
        }
    }
}

impl CompletionWaiters {
    /// Creates the waiters; `subscribe` opens a stream.
    pub(crate) fn new(subscribe: impl Fn() -> WakeStream + Send + Sync + 'static) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            subscribe: Box::new(subscribe),
            state: Mutex::default(),
            stream_waker: Arc::new(StreamWaker(this.clone())).into(),
        })
    }

    /// Registers for the end of this job, given by the id of its chain.
    pub(super) fn wait_for(self: &Arc<Self>, job: JobId) -> CompletionWaiter {
        let key = self.lock().waiters.insert(job);
        let waiter = CompletionWaiter { completions: self.clone(), key };
        // From here on an open stream stays open.
        if self.lock().wakes.is_none() {
            self.open();
        }
        waiter
    }

    /// Whether any task has ever waited here.
    pub(crate) fn is_used(&self) -> bool {
        self.lock().was_used
    }

    /// Opens the stream. If two threads do so at the same time, the later stream is dropped:
    /// no waiter has read its job yet.
    fn open(&self) {
        let new_stream = Arc::new(Mutex::new((self.subscribe)()));
        let mut state = self.lock();
        state.was_used = true;
        if state.wakes.is_none() {
            (state.wakes, state.unread) = (Some(new_stream), true);
        } else {
            drop(state);
            drop(new_stream);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the stream has items, and wakes a waiter to read them.
    fn stream_ready(&self) {
        let reader = self.lock().set_unread();
        reader.into_iter().for_each(Waker::wake);
    }

    /// Wakes a waiter if the stream may have unread items.
    fn wake_reader(&self) {
        let reader = self.lock().reader_to_wake();
        reader.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, key: &WaiterKey, waker: &Waker) -> Poll<()> {
        match self.park(key, waker.clone()) {
            Poll::Ready(()) => return Poll::Ready(()),
            Poll::Pending => self.read(),
        }
        if self.lock().waiters.take_notice(key) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Parks the waiter unless it was notified. It parks before it reads, because a concurrent
    /// reader wakes only parked waiters.
    fn park(&self, key: &WaiterKey, waker: Waker) -> Poll<()> {
        let mut state = self.lock();
        if state.waiters.take_notice(key) {
            return Poll::Ready(());
        }
        let before = state.waiters.park(key, waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Reads the stream, if it may have unread items and no other waiter reads it.
    fn read(&self) {
        let Some(wakes) = self.lock().unread() else { return };
        let mut stream = match wakes.try_lock() {
            Ok(stream) => stream,
            Err(TryLockError::Poisoned(stream)) => stream.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.lock().unread = false;
        self.read_available(&mut stream);
        drop(stream);
        self.wake_reader();
    }

    fn read_available(&self, wakes: &mut WakeStream) {
        let mut cx = Context::from_waker(&self.stream_waker);
        for _ in 0..MAX_WAKES_PER_POLL {
            match wakes.as_mut().poll_next(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Some(wake)) => self.dispatch(&wake),
                Poll::Ready(None) => {
                    // The order matters: subscribe first, then read the job.
                    *wakes = (self.subscribe)();
                    self.dispatch(&Wake::Everything);
                    break;
                }
            }
        }
        self.lock().unread = true;
    }

    fn dispatch(&self, wake: &Wake) {
        let woken = match wake {
            Wake::Finished(job) => self.lock().waiters.notify(&job.chain()),
            Wake::Everything => self.lock().waiters.notify_all(),
            Wake::Queue { .. } | Wake::DueEarlier(_) | Wake::Cancel(_) | Wake::LeaseLost(_) => return,
            Wake::Worker(_) | Wake::Capacity(_) | Wake::Session(_) => return,
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// The waiter no longer waits, and would not read if it was woken.
    fn unpark(&self, key: &WaiterKey) {
        let waker = self.lock().waiters.unpark(key);
        drop(waker);
        self.wake_reader();
    }

    fn leave(&self, key: &WaiterKey) {
        let left = self.lock().leave(key);
        drop(left);
        self.wake_reader();
    }
}

impl WaitersState {
    fn unread(&self) -> Option<Arc<Mutex<WakeStream>>> {
        if self.unread { self.wakes.clone() } else { None }
    }

    fn set_unread(&mut self) -> Option<Waker> {
        self.unread = true;
        self.reader_to_wake()
    }

    fn reader_to_wake(&mut self) -> Option<Waker> {
        if self.unread { self.waiters.pick_reader() } else { None }
    }

    /// Removes the waiter. Returns what the caller drops after it has released the lock: the last
    /// waiter closes the stream.
    fn leave(&mut self, key: &WaiterKey) -> (Option<Waker>, Option<Arc<Mutex<WakeStream>>>) {
        let waker = self.waiters.remove(key);
        let closed = if self.waiters.is_empty() { self.wakes.take() } else { None };
        (waker, closed)
    }
}

impl CompletionWaiter {
    /// Completes when the job has ended or may have ended, or when messages may have been missed.
    pub(super) fn notified(&mut self) -> Notified<'_> {
        Notified(self)
    }
}

impl Drop for CompletionWaiter {
    fn drop(&mut self) {
        self.completions.leave(&self.key);
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.completions.poll(&self.0.key, cx.waker())
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.0.completions.unpark(&self.0.key);
    }
}

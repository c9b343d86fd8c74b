//! Wake-ups waiting to be sent: any task adds to them, and one sender takes them in batches.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;

use crate::wake::{Wake, WakeSet};

/// The outgoing wake-ups of a process. Any number of callers add, one sender takes.
#[derive(Debug, Default)]
pub struct Pending {
    state: Mutex<PendingState>,
    sender: AtomicWaker,
}

#[derive(Debug, Default)]
struct PendingState {
    /// The wake-ups that no batch has taken.
    wakes: WakeSet,
    /// How many wake-ups were ever added.
    added: u64,
    /// How many of those have been sent or given up.
    sent_count: u64,
    /// Whether the sender is idle, so that a wake-up is sent at once.
    sender_idle: bool,
    /// The callers that wait until everything has been sent.
    flushing: Vec<Waker>,
}

/// When a wake-up is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendTiming {
    /// At once: waiting for it is short.
    Now,
    /// With the next batch, within milliseconds.
    Soon,
}

/// Wake-ups that are sent together.
#[derive(Debug)]
pub struct WakeBatch {
    /// The wake-ups.
    pub wakes: Vec<Wake>,
    added: u64,
}

impl Pending {
    /// Adds a wake-up and wakes the sender. The result says whether waiting for it to be sent is
    /// short.
    pub fn add(&self, wake: Wake) -> SendTiming {
        let mut state = self.lock();
        state.wakes.add(wake);
        state.added += 1;
        let timing = if state.sender_idle { SendTiming::Now } else { SendTiming::Soon };
        drop(state);
        self.sender.wake();
        timing
    }

    /// Waits for wake-ups and takes them. For one caller at a time.
    ///
    /// Until `busy` completes the sender still sends as soon as it can. But callers are then not
    /// asked to wait for it, because a caller that publishes often would wait each time.
    pub async fn next_batch(&self, busy: impl Future<Output = ()>) -> WakeBatch {
        let (mut busy, mut is_busy) = (pin!(busy), true);
        poll_fn(|cx| {
            is_busy = is_busy && busy.as_mut().poll(cx).is_pending();
            self.poll_batch(cx, is_busy)
        })
        .await
    }

    fn poll_batch(&self, cx: &Context<'_>, is_busy: bool) -> Poll<WakeBatch> {
        self.sender.register(cx.waker());
        let mut state = self.lock();
        let is_empty = state.wakes.is_empty();
        state.sender_idle = is_empty && !is_busy;
        if is_empty {
            return Poll::Pending;
        }
        Poll::Ready(WakeBatch { wakes: state.wakes.take(), added: state.added })
    }

    /// Records that the batch was sent.
    pub fn sent(&self, batch: &WakeBatch) {
        let mut state = self.lock();
        state.sent_count = state.sent_count.max(batch.added);
        let flushing = std::mem::take(&mut state.flushing);
        drop(state);
        flushing.into_iter().for_each(Waker::wake);
    }

    /// Records that sending the batch failed, at an unknown point. The next batch contains
    /// [`Wake::Everything`] instead, and no caller waits for that.
    pub fn failed(&self, batch: &WakeBatch) {
        self.lock().wakes.add(Wake::Everything);
        self.sent(batch);
    }

    /// Waits until everything that was added before has been sent, however long that takes.
    pub async fn flushed(&self) {
        let added = self.lock().added;
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.sent_count >= added {
                return Poll::Ready(());
            }
            state.flushing.retain(|other| !other.will_wake(cx.waker()));
            state.flushing.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;
    use crate::name::{JobId, Queue, QueueName};

    fn wake(jobs: usize) -> Wake {
        Wake::Queue { queue: Queue::at_least_once(QueueName::new("mail").unwrap()), jobs }
    }

    #[test]
    fn wakes_added_between_two_batches_are_sent_together() {
        let outgoing = Pending::default();
        assert!(outgoing.next_batch(ready(())).now_or_never().is_none());
        assert_eq!(outgoing.add(wake(2)), SendTiming::Now);
        outgoing.add(wake(3));
        let batch = outgoing.next_batch(ready(())).now_or_never().unwrap();
        assert_eq!(batch.wakes, [wake(5)]);
        // The sender is busy now.
        assert_eq!(outgoing.add(wake(1)), SendTiming::Soon);
    }

    #[test]
    fn a_caller_does_not_wait_for_a_busy_sender() {
        let outgoing = Pending::default();
        assert!(outgoing.next_batch(pending()).now_or_never().is_none());
        assert_eq!(outgoing.add(wake(1)), SendTiming::Soon);
        assert!(outgoing.next_batch(pending()).now_or_never().is_some());
    }

    #[test]
    fn flushing_ends_when_earlier_wakes_were_sent() {
        let outgoing = Pending::default();
        assert!(outgoing.flushed().now_or_never().is_some());
        outgoing.add(wake(1));
        let mut flushed = Box::pin(outgoing.flushed());
        assert!((&mut flushed).now_or_never().is_none());
        let batch = outgoing.next_batch(ready(())).now_or_never().unwrap();
        outgoing.add(wake(1));
        outgoing.sent(&batch);
        assert!(flushed.now_or_never().is_some());
        assert!(outgoing.flushed().now_or_never().is_none());
    }

    #[test]
    fn a_failed_batch_becomes_a_wake_for_everything() {
        let outgoing = Pending::default();
        outgoing.add(Wake::Finished(JobId::new("a").unwrap()));
        let batch = outgoing.next_batch(ready(())).now_or_never().unwrap();
        outgoing.failed(&batch);
        assert_eq!(outgoing.next_batch(ready(())).now_or_never().unwrap().wakes, [Wake::Everything]);
    }
}

//! What a transport has to carry: gathered by whoever tells, taken by the one who carries.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;

use super::SendTiming;
use crate::wake::{Wake, WakeSet};

/// Wake-ups on their way out. Any number of callers fill it, one carrier empties it.
#[derive(Debug, Default)]
pub struct Pending {
    contents: Mutex<PendingState>,
    carrier: AtomicWaker,
}

#[derive(Debug, Default)]
struct PendingState {
    news: WakeSet,
    /// How many things have ever been put in.
    postings: u64,
    /// Up to which of them everything has left, or never will.
    told: u64,
    /// Whether the carrier waits for something to carry.
    resting: bool,
    /// Who waits until everything has left.
    flushing: Vec<Waker>,
}

/// What goes out together.
#[derive(Debug)]
pub struct WakeBatch {
    /// What to tell.
    pub wakes: Vec<Wake>,
    postings: u64,
}

impl Pending {
    /// Puts a wake-up in.
    pub fn add(&self, wake: Wake) -> SendTiming {
        let mut contents = self.lock();
        contents.news.add(wake);
        contents.postings += 1;
        let leaves = if contents.resting { SendTiming::Now } else { SendTiming::Soon };
        drop(contents);
        self.carrier.wake();
        leaves
    }

    /// Waits until there is something to carry. For one caller at a time. Until `busy` is over the carrier leaves
    /// as soon, but nobody is asked to wait for it: whoever tells again and again would wait each time.
    pub async fn next_batch(&self, busy: impl Future<Output = ()>) -> WakeBatch {
        let (mut busy, mut is_busy) = (pin!(busy), true);
        poll_fn(|cx| {
            is_busy = is_busy && busy.as_mut().poll(cx).is_pending();
            self.poll_batch(cx, is_busy)
        })
        .await
    }

    fn poll_batch(&self, cx: &Context<'_>, is_busy: bool) -> Poll<WakeBatch> {
        self.carrier.register(cx.waker());
        let mut contents = self.lock();
        let is_empty = contents.news.is_empty();
        contents.resting = is_empty && !is_busy;
        if is_empty {
            return Poll::Pending;
        }
        Poll::Ready(WakeBatch { wakes: contents.news.take(), postings: contents.postings })
    }

    /// The errand is done.
    pub fn sent(&self, errand: &WakeBatch) {
        let mut contents = self.lock();
        contents.told = contents.told.max(errand.postings);
        let flushing = std::mem::take(&mut contents.flushing);
        drop(contents);
        flushing.into_iter().for_each(Waker::wake);
    }

    /// The errand has failed, and nobody knows how far it came. The next one makes up for it, and nobody waits
    /// for that.
    pub fn failed(&self, errand: &WakeBatch) {
        self.lock().news.add(Wake::Everything);
        self.sent(errand);
    }

    /// Waits until everything that is in has left, however long that takes.
    pub async fn flushed(&self) {
        let postings = self.lock().postings;
        poll_fn(|cx| {
            let mut contents = self.lock();
            if contents.told >= postings {
                return Poll::Ready(());
            }
            contents.flushing.retain(|other| !other.will_wake(cx.waker()));
            contents.flushing.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn what_is_told_between_two_errands_goes_out_together() {
        let outgoing = Pending::default();
        assert!(outgoing.next_batch(ready(())).now_or_never().is_none());
        assert_eq!(outgoing.add(wake(2)), SendTiming::Now);
        outgoing.add(wake(3));
        let errand = outgoing.next_batch(ready(())).now_or_never().unwrap();
        assert_eq!(errand.wakes, [wake(5)]);
        // The carrier is on its way now.
        assert_eq!(outgoing.add(wake(1)), SendTiming::Soon);
    }

    #[test]
    fn whoever_tells_a_busy_carrier_does_not_wait_for_it() {
        let outgoing = Pending::default();
        assert!(outgoing.next_batch(pending()).now_or_never().is_none());
        assert_eq!(outgoing.add(wake(1)), SendTiming::Soon);
        assert!(outgoing.next_batch(pending()).now_or_never().is_some());
    }

    #[test]
    fn flushing_ends_when_what_was_told_before_has_left() {
        let outgoing = Pending::default();
        assert!(outgoing.flushed().now_or_never().is_some());
        outgoing.add(wake(1));
        let mut flushed = Box::pin(outgoing.flushed());
        assert!((&mut flushed).now_or_never().is_none());
        let errand = outgoing.next_batch(ready(())).now_or_never().unwrap();
        outgoing.add(wake(1));
        outgoing.sent(&errand);
        assert!(flushed.now_or_never().is_some());
        assert!(outgoing.flushed().now_or_never().is_none());
    }

    #[test]
    fn a_failed_errand_becomes_a_call_to_look_at_everything() {
        let outgoing = Pending::default();
        outgoing.add(Wake::Finished(JobId::new("a").unwrap()));
        let errand = outgoing.next_batch(ready(())).now_or_never().unwrap();
        outgoing.failed(&errand);
        assert_eq!(outgoing.next_batch(ready(())).now_or_never().unwrap().wakes, [Wake::Everything]);
    }
}

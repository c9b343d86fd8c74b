//! What a courier has to carry: gathered by whoever tells, taken by the one who carries.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;

use super::Leaves;
use crate::store::{News, Wake};

/// Wake-ups on their way out. Any number of callers fill it, one carrier empties it.
#[derive(Debug, Default)]
pub struct Satchel {
    contents: Mutex<Contents>,
    carrier: AtomicWaker,
}

#[derive(Debug, Default)]
struct Contents {
    news: News,
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
pub struct Errand {
    /// What to tell.
    pub wakes: Vec<Wake>,
    postings: u64,
}

impl Satchel {
    /// Puts a wake-up in.
    pub fn tell(&self, wake: Wake) -> Leaves {
        let mut contents = self.lock();
        contents.news.add(wake);
        contents.postings += 1;
        let leaves = if contents.resting { Leaves::Now } else { Leaves::Soon };
        drop(contents);
        self.carrier.wake();
        leaves
    }

    /// Waits until there is something to carry. For one caller at a time. Until `busy` is over the carrier leaves
    /// as soon, but nobody is asked to wait for it: whoever tells again and again would wait each time.
    pub async fn errand(&self, busy: impl Future<Output = ()>) -> Errand {
        let (mut busy, mut is_busy) = (pin!(busy), true);
        poll_fn(|cx| {
            is_busy = is_busy && busy.as_mut().poll(cx).is_pending();
            self.poll_errand(cx, is_busy)
        })
        .await
    }

    fn poll_errand(&self, cx: &Context<'_>, is_busy: bool) -> Poll<Errand> {
        self.carrier.register(cx.waker());
        let mut contents = self.lock();
        let is_empty = contents.news.is_empty();
        contents.resting = is_empty && !is_busy;
        if is_empty {
            return Poll::Pending;
        }
        Poll::Ready(Errand { wakes: contents.news.take(), postings: contents.postings })
    }

    /// The errand is done.
    pub fn done(&self, errand: &Errand) {
        let mut contents = self.lock();
        contents.told = contents.told.max(errand.postings);
        let flushing = std::mem::take(&mut contents.flushing);
        drop(contents);
        flushing.into_iter().for_each(Waker::wake);
    }

    /// The errand has failed, and nobody knows how far it came. The next one makes up for it, and nobody waits
    /// for that.
    pub fn failed(&self, errand: &Errand) {
        self.lock().news.add(Wake::Everything);
        self.done(errand);
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

    fn lock(&self) -> MutexGuard<'_, Contents> {
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
        let satchel = Satchel::default();
        assert!(satchel.errand(ready(())).now_or_never().is_none());
        assert_eq!(satchel.tell(wake(2)), Leaves::Now);
        satchel.tell(wake(3));
        let errand = satchel.errand(ready(())).now_or_never().unwrap();
        assert_eq!(errand.wakes, [wake(5)]);
        // The carrier is on its way now.
        assert_eq!(satchel.tell(wake(1)), Leaves::Soon);
    }

    #[test]
    fn whoever_tells_a_busy_carrier_does_not_wait_for_it() {
        let satchel = Satchel::default();
        assert!(satchel.errand(pending()).now_or_never().is_none());
        assert_eq!(satchel.tell(wake(1)), Leaves::Soon);
        assert!(satchel.errand(pending()).now_or_never().is_some());
    }

    #[test]
    fn flushing_ends_when_what_was_told_before_has_left() {
        let satchel = Satchel::default();
        assert!(satchel.flushed().now_or_never().is_some());
        satchel.tell(wake(1));
        let mut flushed = Box::pin(satchel.flushed());
        assert!((&mut flushed).now_or_never().is_none());
        let errand = satchel.errand(ready(())).now_or_never().unwrap();
        satchel.tell(wake(1));
        satchel.done(&errand);
        assert!(flushed.now_or_never().is_some());
        assert!(satchel.flushed().now_or_never().is_none());
    }

    #[test]
    fn a_failed_errand_becomes_a_call_to_look_at_everything() {
        let satchel = Satchel::default();
        satchel.tell(Wake::Finished(JobId::new("a").unwrap()));
        let errand = satchel.errand(ready(())).now_or_never().unwrap();
        satchel.failed(&errand);
        assert_eq!(satchel.errand(ready(())).now_or_never().unwrap().wakes, [Wake::Everything]);
    }
}

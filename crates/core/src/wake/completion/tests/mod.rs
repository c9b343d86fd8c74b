//! Which waiters are woken, for what, and which one reads if the woken one does not.

mod interleaved;
mod threads;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt, Stream, stream};

use super::*;
use crate::name::{Queue, QueueName};
use crate::wake::Subscribers;

/// A task that counts how often it was woken.
#[derive(Default)]
struct CountingTask(AtomicUsize);

impl Call for CountingTask {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl CountingTask {
    fn woken(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }

    fn poll(self: &Arc<Self>, news: &mut (impl Future<Output = ()> + Unpin)) -> Poll<()> {
        let waker = Waker::from(self.clone());
        news.poll_unpin(&mut Context::from_waker(&waker))
    }
}

fn job(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

fn end(id: &str) -> Wake {
    Wake::Finished(job(id))
}

fn noise() -> Wake {
    Wake::all_waiters(Queue::at_most_once(QueueName::new("mail").unwrap()))
}

/// Completion waiters on a set of subscribers, and how many streams they have opened.
fn completions() -> (Arc<CompletionWaiters>, Arc<Subscribers<Wake>>, Arc<AtomicUsize>) {
    let (listeners, opened) = (Arc::new(Subscribers::default()), Arc::new(AtomicUsize::new(0)));
    let (heard, count) = (listeners.clone(), opened.clone());
    let listen = move || -> WakeStream {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(heard.subscribe())
    };
    (CompletionWaiters::new(listen), listeners, opened)
}

#[test]
fn whoever_waits_is_woken_for_its_own_end_only() {
    let (completions, listeners, opened) = completions();
    let mut waiters = ["a", "b", "c", "d"].map(|id| completions.wait_for(job(id)));
    let tasks = [(); 4].map(|()| Arc::new(CountingTask::default()));
    let [a, b, c, reader] = &mut waiters;
    let mut news = [a.notified(), b.notified(), c.notified(), reader.notified()];
    for (task, news) in tasks.iter().zip(&mut news) {
        assert_eq!(task.poll(news), Poll::Pending);
    }
    for _ in 0..100 {
        listeners.publish(&noise());
    }
    listeners.publish(&end("b~3"));
    let woken = || tasks.each_ref().map(|task| task.woken());
    assert_eq!(woken(), [0, 0, 0, 1], "one is called to read, once");
    assert_eq!(tasks[3].poll(&mut news[3]), Poll::Pending);
    assert_eq!(woken(), [0, 1, 0, 0], "the end of a chain is told to who waits for it");
    assert_eq!(tasks[1].poll(&mut news[1]), Poll::Ready(()));
    listeners.publish(&Wake::Everything);
    assert_eq!(tasks[3].poll(&mut news[3]), Poll::Ready(()));
    assert_eq!([tasks[0].woken(), tasks[2].woken()], [1, 1]);
    assert_eq!(opened.load(Ordering::SeqCst), 1);
}

#[test]
fn all_who_wait_for_one_end_are_woken_for_it() {
    let (completions, listeners, _) = completions();
    let (mut one, mut other) = (completions.wait_for(job("a")), completions.wait_for(job("a")));
    listeners.publish(&end("a"));
    assert_eq!(one.notified().now_or_never(), Some(()));
    assert_eq!(other.notified().now_or_never(), Some(()));
    assert_eq!(one.notified().now_or_never(), None, "news is news once");
}

#[test]
fn one_that_was_called_and_goes_calls_another() {
    let (completions, listeners, _) = completions();
    let (mut waiter, mut goer) = (completions.wait_for(job("a")), completions.wait_for(job("b")));
    let (task, called) = (Arc::new(CountingTask::default()), Arc::new(CountingTask::default()));
    let mut news = waiter.notified();
    assert_eq!(task.poll(&mut news), Poll::Pending);
    let mut passing = goer.notified();
    assert_eq!(called.poll(&mut passing), Poll::Pending);
    listeners.publish(&end("a"));
    assert_eq!((task.woken(), called.woken()), (0, 1));
    drop(passing);
    assert_eq!(task.woken(), 1);
    drop(goer);
    assert_eq!(task.poll(&mut news), Poll::Ready(()));
}

#[test]
fn one_that_was_called_and_forgot_what_for_calls_another_when_it_goes() {
    let (completions, listeners, _) = completions();
    let (mut waiter, mut goer) = (completions.wait_for(job("a")), completions.wait_for(job("b")));
    let (task, mut news) = (Arc::new(CountingTask::default()), waiter.notified());
    assert_eq!(task.poll(&mut news), Poll::Pending);
    let mut forgotten = goer.notified();
    assert_eq!(Arc::new(CountingTask::default()).poll(&mut forgotten), Poll::Pending);
    std::mem::forget(forgotten);
    listeners.publish(&end("a"));
    assert_eq!(task.woken(), 0);
    drop(goer);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(&mut news), Poll::Ready(()));
}

#[test]
fn one_that_looks_at_the_store_is_not_called_and_misses_nothing() {
    let (completions, listeners, _) = completions();
    let (mut waiter, mut looker) = (completions.wait_for(job("a")), completions.wait_for(job("b")));
    let task = Arc::new(CountingTask::default());
    let mut news = waiter.notified();
    assert_eq!(task.poll(&mut news), Poll::Pending);
    assert_eq!(looker.notified().now_or_never(), None);
    listeners.publish(&end("b"));
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(&mut news), Poll::Pending);
    assert_eq!(looker.notified().now_or_never(), Some(()));
}

#[test]
fn one_that_is_called_and_does_not_come_is_passed_over() {
    let (completions, listeners, _) = completions();
    let (mut waiter, mut stuck) = (completions.wait_for(job("a")), completions.wait_for(job("b")));
    let (task, forgotten) = (Arc::new(CountingTask::default()), Arc::new(CountingTask::default()));
    let (mut news, mut unpolled) = (waiter.notified(), stuck.notified());
    assert_eq!(task.poll(&mut news), Poll::Pending);
    assert_eq!(forgotten.poll(&mut unpolled), Poll::Pending);
    listeners.publish(&noise());
    assert_eq!(task.poll(&mut news), Poll::Pending, "polled for another reason, it reads");
    listeners.publish(&end("a"));
    assert_eq!((task.woken(), forgotten.woken()), (1, 1), "the one that came is called next");
    assert_eq!(task.poll(&mut news), Poll::Ready(()));
}

#[test]
fn the_stream_is_open_while_anybody_waits() {
    let (completions, listeners, opened) = completions();
    let first = completions.wait_for(job("a"));
    let mut second = completions.wait_for(job("b"));
    listeners.publish(&end("b"));
    drop(first);
    assert_eq!(second.notified().now_or_never(), Some(()), "though nobody read when it was told");
    drop(second);
    assert!(completions.lock().wakes.is_none());
    listeners.publish(&end("c"));
    assert_eq!(completions.wait_for(job("c")).notified().now_or_never(), None);
    assert_eq!(opened.load(Ordering::SeqCst), 2);
}

#[test]
fn a_stream_that_ends_makes_everybody_look_and_is_opened_again() {
    let listeners = Arc::new(Subscribers::<Wake>::default());
    let heard = listeners.clone();
    let streams = Mutex::new(VecDeque::from([Box::pin(stream::empty()) as WakeStream]));
    let next = move || streams.lock().unwrap().pop_front();
    let completions = CompletionWaiters::new(move || next().unwrap_or_else(|| Box::pin(heard.subscribe())));
    let (mut one, mut other) = (completions.wait_for(job("a")), completions.wait_for(job("b")));
    assert_eq!(one.notified().now_or_never(), Some(()));
    listeners.publish(&end("b"));
    assert_eq!(other.notified().now_or_never(), Some(()));
    assert_eq!(one.notified().now_or_never(), None);
}

#[test]
fn one_that_finds_very_much_to_read_comes_back_for_the_rest() {
    let (completions, listeners, _) = completions();
    let mut waiter = completions.wait_for(job("a"));
    let (task, mut news) = (Arc::new(CountingTask::default()), waiter.notified());
    (0..MAX_WAKES_PER_POLL).for_each(|_| listeners.publish(&noise()));
    listeners.publish(&end("a"));
    assert_eq!(task.poll(&mut news), Poll::Pending);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(&mut news), Poll::Ready(()));
}

/// A stream that has nothing on its first poll and wakes its reader at once, as a stream does that
/// yields to others.
struct YieldingStream<S>(S, bool);

impl<S: Stream + Unpin> Stream for YieldingStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.1 = !self.1;
        if self.1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_next(cx)
    }
}

#[test]
fn what_stirs_while_somebody_reads_is_read_by_whoever_is_called_for_it() {
    let listeners = Arc::new(Subscribers::<Wake>::default());
    let heard = listeners.clone();
    let completions = CompletionWaiters::new(move || Box::pin(YieldingStream(heard.subscribe(), false)));
    let mut waiter = completions.wait_for(job("a"));
    let (task, mut news) = (Arc::new(CountingTask::default()), waiter.notified());
    listeners.publish(&end("a"));
    let mut polls = 1;
    while task.poll(&mut news).is_pending() {
        assert!(task.woken() > 0, "asleep after {polls} polls");
        polls += 1;
    }
    assert_eq!(polls, 2);
}

/// A stream that runs an action after it had nothing to return, before its reader knows.
struct InterruptedStream<S>(S, Interruption);

type Interruption = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

impl<S: Stream + Unpin> Stream for InterruptedStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let found = Pin::new(&mut self.0).poll_next(cx);
        let meddler = if found.is_pending() { self.1.lock().unwrap().take() } else { None };
        meddler.into_iter().for_each(|act| act());
        found
    }
}

#[test]
fn one_that_is_called_while_another_still_has_the_stream_is_called_again() {
    let (listeners, meddler) = (Arc::new(Subscribers::<Wake>::default()), Interruption::default());
    let (heard, meddles) = (listeners.clone(), meddler.clone());
    let completions =
        CompletionWaiters::new(move || Box::pin(InterruptedStream(heard.subscribe(), meddles.clone())));
    let (mut waiter, mut reader) = (completions.wait_for(job("a")), completions.wait_for(job("b")));
    let task = Arc::new(CountingTask::default());
    let news = Arc::new(Mutex::new(async move { waiter.notified().await }.boxed()));
    let (called, waits) = (task.clone(), news.clone());
    *meddler.lock().unwrap() = Some(Box::new(move || {
        let poll = || called.poll(&mut *waits.lock().unwrap());
        assert_eq!(poll(), Poll::Pending);
        listeners.publish(&end("a"));
        assert_eq!((called.woken(), poll()), (1, Poll::Pending), "another has the stream");
    }));
    let mut read = reader.notified();
    assert_eq!(Arc::new(CountingTask::default()).poll(&mut read), Poll::Pending);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(&mut *news.lock().unwrap()), Poll::Ready(()));
}

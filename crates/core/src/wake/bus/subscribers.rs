//! Those who listen in this process. Each has a backlog of its own; whoever falls too far behind is told to
//! look at everything instead.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::wake::Wake;

/// How many things a slow listener may be behind.
const MAX_BACKLOG_WAKES: usize = 1_024;

/// Everybody who listens to the same.
#[derive(Debug)]
pub struct Subscribers<T> {
    ears: Mutex<Vec<Weak<Subscriber<T>>>>,
}

#[derive(Debug)]
struct Subscriber<T>(Mutex<Backlog<T>>);

#[derive(Debug)]
struct Backlog<T> {
    backlog: VecDeque<T>,
    waker: Option<Waker>,
}

/// Hears everything that is told from its creation on. A stream that never ends.
#[derive(Debug)]
pub struct Subscription<T>(Arc<Subscriber<T>>);

impl<T> Default for Subscribers<T> {
    fn default() -> Self {
        Self { ears: Mutex::default() }
    }
}

impl<T: Clone + From<Wake>> Subscribers<T> {
    /// Listens from now on.
    pub fn subscribe(&self) -> Subscription<T> {
        let unheard = Backlog { backlog: VecDeque::new(), waker: None };
        let ear = Arc::new(Subscriber(Mutex::new(unheard)));
        let mut ears = lock(&self.ears);
        ears.retain(|other| other.strong_count() > 0);
        ears.push(Arc::downgrade(&ear));
        Subscription(ear)
    }

    /// Tells everybody who listens.
    pub fn publish(&self, news: &T) {
        lock(&self.ears).iter().filter_map(Weak::upgrade).for_each(|ear| ear.hear(news.clone()));
    }
}

impl<T: From<Wake>> Subscriber<T> {
    fn hear(&self, news: T) {
        let mut unheard = lock(&self.0);
        if unheard.backlog.len() >= MAX_BACKLOG_WAKES {
            unheard.backlog.clear();
            unheard.backlog.push_back(Wake::Everything.into());
        } else {
            unheard.backlog.push_back(news);
        }
        if let Some(waker) = unheard.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Stream for Subscription<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut unheard = lock(&self.0.0);
        match unheard.backlog.pop_front() {
            Some(news) => Poll::Ready(Some(news)),
            None => {
                unheard.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;
    use crate::name::JobId;

    fn wake(id: &str) -> Wake {
        Wake::Finished(JobId::new(id).unwrap())
    }

    #[test]
    fn everybody_hears_what_is_told_while_they_listen() {
        let listeners = Subscribers::<Wake>::default();
        listeners.publish(&wake("a"));
        let (mut one, other) = (listeners.subscribe(), listeners.subscribe());
        listeners.publish(&wake("b"));
        drop(other);
        listeners.publish(&wake("c"));
        assert_eq!(one.next().now_or_never(), Some(Some(wake("b"))));
        assert_eq!(one.next().now_or_never(), Some(Some(wake("c"))));
        assert_eq!(one.next().now_or_never(), None);
    }

    #[test]
    fn a_listener_that_is_too_slow_is_told_to_look_at_everything() {
        let listeners = Subscribers::<Wake>::default();
        let mut slow = listeners.subscribe();
        (0..=MAX_BACKLOG_WAKES).for_each(|_| listeners.publish(&wake("a")));
        assert_eq!(slow.next().now_or_never(), Some(Some(Wake::Everything)));
        assert_eq!(slow.next().now_or_never(), None);
    }
}

//! Subscribers within the process. Each has its own backlog; one that lags too far behind gets
//! [`Wake::Everything`] instead.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::wake::Wake;

/// The longest backlog of a subscriber.
const MAX_BACKLOG_WAKES: usize = 1_024;

/// The subscribers to one kind of message.
#[derive(Debug)]
pub struct Subscribers<T> {
    subscribers: Mutex<Vec<Weak<Subscriber<T>>>>,
}

#[derive(Debug)]
struct Subscriber<T>(Mutex<Backlog<T>>);

#[derive(Debug)]
struct Backlog<T> {
    messages: VecDeque<T>,
    waker: Option<Waker>,
}

/// A subscription: a stream of everything that is published after its creation. It never ends.
#[derive(Debug)]
pub struct Subscription<T>(Arc<Subscriber<T>>);

impl<T> Default for Subscribers<T> {
    fn default() -> Self {
        Self { subscribers: Mutex::default() }
    }
}

impl<T: Clone + From<Wake>> Subscribers<T> {
    /// Creates a subscription.
    pub fn subscribe(&self) -> Subscription<T> {
        let state = Backlog { messages: VecDeque::new(), waker: None };
        let subscriber = Arc::new(Subscriber(Mutex::new(state)));
        let mut subscribers = lock(&self.subscribers);
        subscribers.retain(|other| other.strong_count() > 0);
        subscribers.push(Arc::downgrade(&subscriber));
        Subscription(subscriber)
    }

    /// Publishes a message to all subscribers.
    pub fn publish(&self, message: &T) {
        lock(&self.subscribers)
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|subscriber| subscriber.push(message.clone()));
    }
}

impl<T: From<Wake>> Subscriber<T> {
    fn push(&self, message: T) {
        let mut state = lock(&self.0);
        if state.messages.len() >= MAX_BACKLOG_WAKES {
            state.messages.clear();
            state.messages.push_back(Wake::Everything.into());
        } else {
            state.messages.push_back(message);
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Stream for Subscription<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.0.0);
        match state.messages.pop_front() {
            Some(message) => Poll::Ready(Some(message)),
            None => {
                state.waker = Some(cx.waker().clone());
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
        let subscribers = Subscribers::<Wake>::default();
        subscribers.publish(&wake("a"));
        let (mut one, other) = (subscribers.subscribe(), subscribers.subscribe());
        subscribers.publish(&wake("b"));
        drop(other);
        subscribers.publish(&wake("c"));
        assert_eq!(one.next().now_or_never(), Some(Some(wake("b"))));
        assert_eq!(one.next().now_or_never(), Some(Some(wake("c"))));
        assert_eq!(one.next().now_or_never(), None);
    }

    #[test]
    fn a_listener_that_is_too_slow_is_told_to_look_at_everything() {
        let subscribers = Subscribers::<Wake>::default();
        let mut slow = subscribers.subscribe();
        (0..=MAX_BACKLOG_WAKES).for_each(|_| subscribers.publish(&wake("a")));
        assert_eq!(slow.next().now_or_never(), Some(Some(Wake::Everything)));
        assert_eq!(slow.next().now_or_never(), None);
    }
}

//! Tasks: code of a run that goes on beside the rest of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;

use super::Ctx;
use super::leaf::Leaf;
use crate::state::{On, Outcome};

impl Ctx {
    /// Runs a future as a task of its own, polled after those that are ready. It goes on when its handle is
    /// dropped, and is dropped itself when the run ends.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let output = Arc::new(Mutex::new(None));
        let mut handle = JoinHandle { leaf: Leaf::of(self), output: output.clone() };
        let mut state = self.shared.lock();
        if !state.allows(&"a spawned task") {
            return handle;
        }
        let (key, since) = (state.next_key(), state.now);
        state.waits.open(key, On::Task, true, since);
        let shared = self.shared.clone();
        let task = future.map(move |value| {
            *output.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            shared.lock().waits.answer(key, Outcome::Happened);
        });
        let id = state.waits.ready.begin_task();
        state.spawned.push((id, task.boxed()));
        drop(state);
        handle.leaf.adopt(key);
        handle
    }
}

/// A task's output, once it has ended.
pub struct JoinHandle<T> {
    leaf: Leaf,
    output: Arc<Mutex<Option<T>>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        ready!(self.leaf.poll(cx));
        let value = self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.map_or(Poll::Pending, Poll::Ready)
    }
}

//! Spawned tasks: concurrent code of a run.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;

use super::Ctx;
use super::future::CtxFuture;
use crate::state::{WaitResult, WaitTarget};

impl Ctx {
    /// Runs a future as its own task, polled after the ready ones. It continues if its handle is
    /// dropped, and is dropped when the run ends.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let output = Arc::new(Mutex::new(None));
        let mut handle = JoinHandle { inner: CtxFuture::new(self), output: output.clone() };
        let mut state = self.shared.lock();
        if !state.may_change_run(&"a spawned task") {
            return handle;
        }
        let (key, since) = (state.next_unnumbered_key(), state.now);
        state.waits.open(key, WaitTarget::Task, true, since);
        let shared = self.shared.clone();
        let task = future.map(move |value| {
            *output.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            shared.lock().waits.complete(key, WaitResult::Happened);
        });
        let id = state.waits.ready.add_task();
        state.spawned.push((id, task.boxed()));
        drop(state);
        handle.inner.attach(key);
        handle
    }
}

/// A handle to a task's output.
pub struct JoinHandle<T> {
    inner: CtxFuture,
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
        ready!(self.inner.poll(cx));
        let value = self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.map_or(Poll::Pending, Poll::Ready)
    }
}

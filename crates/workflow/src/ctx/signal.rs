//! Receiving signals.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::de::DeserializeOwned;
use tidemill_core::workflow::StoredSignal;

use super::Ctx;
use super::future::CtxFuture;
use crate::definition::Signal;
use crate::error::RunCancelled;
use crate::state::{WaitResult, WaitTarget};

impl Ctx {
    /// The signals of one name, in the order of arrival. Each is received exactly once, and is kept
    /// until then.
    pub fn signals<T>(&self, signal: &Signal<T>) -> Signals<T> {
        Signals { ctx: self.clone(), name: signal.name(), content: PhantomData }
    }
}

/// The signals of one name.
#[derive(Debug)]
pub struct Signals<T> {
    ctx: Ctx,
    name: &'static str,
    content: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Signals<T> {
    /// Waits for the next signal.
    pub fn recv(&self) -> RecvSignal<T> {
        RecvSignal { inner: CtxFuture::new(&self.ctx), name: self.name, waiting: false, content: PhantomData }
    }

    /// The next signal, if one has arrived.
    pub fn try_recv(&self) -> Option<T> {
        let mut state = self.ctx.shared.lock();
        if state.is_stopped() {
            return None;
        }
        let signal = state.signals.take(self.name)?;
        let read = signal.payload.read();
        read.map_err(|error| state.block_unreadable(describe_payload(self.name), error)).ok()
    }
}

/// The future of the next signal.
#[must_use = "futures do nothing unless they are awaited"]
pub struct RecvSignal<T> {
    inner: CtxFuture,
    name: &'static str,
    waiting: bool,
    content: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Future for RecvSignal<T> {
    type Output = Result<T, RunCancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let name = self.name;
        if !self.waiting {
            self.waiting = true;
            let found = self.inner.wait_for(WaitTarget::Signal(name), |state, key| {
                let found = state.signals.take(name);
                if found.is_none() {
                    state.signals.add_waiter(name, key);
                }
                found
            })?;
            if let Some(signal) = found {
                return self.read_payload(&signal);
            }
        }
        match ready!(self.inner.poll(cx)) {
            WaitResult::Message(message) => self.read_payload(&message.content),
            _ => Poll::Ready(Err(RunCancelled)),
        }
    }
}

impl<T: DeserializeOwned> RecvSignal<T> {
    fn read_payload(&self, signal: &StoredSignal) -> Poll<Result<T, RunCancelled>> {
        self.inner.deserialize(&signal.payload, || describe_payload(self.name)).map(Ok)
    }
}

fn describe_payload(name: &str) -> String {
    format!("the payload of signal `{name}`")
}

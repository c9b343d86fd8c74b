//! Receiving signals.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::de::DeserializeOwned;
use tidemill_core::workflow::StoredSignal;

use super::Ctx;
use super::leaf::Leaf;
use crate::definition::Signal;
use crate::error::Cancelled;
use crate::state::{On, Outcome};

impl Ctx {
    /// The signals of one name, in the order in which they came. Each is received once, however many receive; none
    /// is lost, however long it waits.
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
    /// Waits for the next.
    pub fn recv(&self) -> Recv<T> {
        Recv { leaf: Leaf::of(&self.ctx), name: self.name, listening: false, content: PhantomData }
    }

    /// The next, if it is there already.
    pub fn try_recv(&self) -> Option<T> {
        let mut state = self.ctx.shared.lock();
        if state.is_stopped() {
            return None;
        }
        let signal = state.signals.take(self.name)?;
        let read = signal.payload.read();
        read.map_err(|error| state.misfit(misfit(self.name), &error)).ok()
    }
}

/// A signal that has not come yet.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Recv<T> {
    leaf: Leaf,
    name: &'static str,
    listening: bool,
    content: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Future for Recv<T> {
    type Output = Result<T, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let name = self.name;
        if !self.listening {
            self.listening = true;
            let found = self.leaf.listen(On::Signal(name), |state, key| {
                let found = state.signals.take(name);
                if found.is_none() {
                    state.signals.wait(name, key);
                }
                found
            })?;
            if let Some(signal) = found {
                return self.received(&signal);
            }
        }
        match ready!(self.leaf.poll(cx)) {
            Outcome::Message(message) => self.received(&message.content),
            _ => Poll::Ready(Err(Cancelled)),
        }
    }
}

impl<T: DeserializeOwned> Recv<T> {
    fn received(&self, signal: &StoredSignal) -> Poll<Result<T, Cancelled>> {
        self.leaf.read(&signal.payload, || misfit(self.name)).map(Ok)
    }
}

fn misfit(name: &str) -> String {
    format!("the payload of signal `{name}`")
}

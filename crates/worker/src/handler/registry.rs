//! The handlers of a worker by kind.

use std::collections::HashMap;
use std::time::Duration;

use tidemill_core::{Backoff, Kind};

use crate::handler::Handler;
use crate::queue_slots::MovingAverage;

/// A handler and the settings of its jobs.
pub(crate) struct RegisteredHandler {
    pub(crate) handler: Box<dyn Handler>,
    /// The backoff between retries.
    pub(crate) backoff: Backoff,
    /// The timeout of an attempt, for envelopes without one.
    pub(crate) timeout: Option<Duration>,
    /// How long the first poll of a job takes; kinds with short first polls share a task.
    pub(crate) first_poll_time: MovingAverage,
}

impl RegisteredHandler {
    pub(crate) fn new(handler: Box<dyn Handler>, backoff: Backoff, timeout: Option<Duration>) -> Self {
        Self { handler, backoff, timeout, first_poll_time: MovingAverage::default() }
    }
}

/// All handlers of a worker.
#[derive(Default)]
pub(crate) struct Registry {
    by_kind: HashMap<Kind, usize>,
    handlers: Vec<RegisteredHandler>,
    /// For kinds without a handler of their own.
    fallback: Option<usize>,
}

/// The index of a handler in the registry: cheaper to copy than a shared pointer.
pub(crate) type HandlerIndex = Option<usize>;

impl Registry {
    /// Adds a handler; `false` if the kind has one already.
    pub(crate) fn add(&mut self, kind: &Kind, registered: RegisteredHandler) -> bool {
        self.handlers.push(registered);
        self.by_kind.insert(kind.clone(), self.handlers.len() - 1).is_none()
    }

    /// Sets the fallback handler; `false` if there is one already.
    pub(crate) fn add_fallback(&mut self, registered: RegisteredHandler) -> bool {
        self.handlers.push(registered);
        self.fallback.replace(self.handlers.len() - 1).is_none()
    }

    /// The kinds with a handler of their own, and whether there is a fallback handler.
    pub(crate) fn kinds(&self) -> (Vec<Kind>, bool) {
        (self.by_kind.keys().cloned().collect(), self.fallback.is_some())
    }

    pub(crate) fn find(&self, kind: &Kind) -> HandlerIndex {
        self.by_kind.get(kind).copied().or(self.fallback)
    }

    pub(crate) fn get(&self, index: HandlerIndex) -> Option<&RegisteredHandler> {
        self.handlers.get(index?)
    }
}

//! What runs beside a worker's own parts: something an engine on top of it brings along.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio_util::sync::CancellationToken;

use crate::worker::Worker;

/// A part that another engine brings along. It begins before the first claim, is told to end when the last handler has
/// ended, and is waited for; should it end by itself, the worker shuts down.
pub(crate) struct Companion {
    pub(crate) name: &'static str,
    begin: Box<dyn FnOnce(CancellationToken) -> Running + Send + Sync>,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Companion {
    pub(crate) fn run(self, end: CancellationToken) -> Running {
        (self.begin)(end)
    }
}

impl fmt::Debug for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Companion({})", self.name)
    }
}

impl Worker {
    /// Runs `part` beside the worker, for an engine on top of it: from before the first claim until it ends after the
    /// token is cancelled, which happens when the last handler has ended.
    pub fn beside<P, R>(mut self, name: &'static str, part: P) -> Self
    where
        P: FnOnce(CancellationToken) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.companions.push(Companion { name, begin: Box::new(move |end| Box::pin(part(end))) });
        self
    }
}

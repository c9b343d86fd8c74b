//! What another engine adds to a worker: handlers and queues that are known only when all of it has been described.
//! What runs beside a worker's own parts: something an engine on top of it brings along.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tidemill_core::{Client, Guarantee};
use tokio_util::sync::CancellationToken;

use crate::builder::WorkerBuilder;
use crate::error::BuildError;
use crate::handler::extract::StateMap;

/// An engine on top of the worker. It gathers what is said to it while the worker is described, and is installed when
/// the worker is built.
pub trait Extension: Any + Send {
    /// Adds what it has come to.
    fn install(self: Box<Self>, worker: WorkerBuilder) -> Result<WorkerBuilder, BuildError>;
}

impl WorkerBuilder {
    /// Describes an extension further; the first time, it is made.
    pub fn extend<E: Extension + Default>(mut self, describe: impl FnOnce(&mut E)) -> Self {
        let is_same_type = |extension: &&mut Box<dyn Extension>| (&***extension as &dyn Any).is::<E>();
        if let Some(existing) = self.extensions.iter_mut().find(is_same_type)
            && let Some(extension) = (&mut **existing as &mut dyn Any).downcast_mut()
        {
            describe(extension);
            return self;
        }
        let mut extension = E::default();
        describe(&mut extension);
        self.extensions.push(Box::new(extension));
        self
    }

    /// The client it works for.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The state its handlers share.
    pub fn states(&self) -> &StateMap {
        &self.states
    }

    /// Whether it has been told to serve the at-least-once queue `name`.
    pub fn serves(&self, name: &str) -> bool {
        self.queues
            .iter()
            .any(|(existing, guarantee, _)| existing == name && *guarantee == Guarantee::AtLeastOnce)
    }

    /// Lets every extension add what it has to.
    pub(crate) fn install(mut self) -> Result<Self, BuildError> {
        for extension in std::mem::take(&mut self.extensions) {
            self = extension.install(self)?;
        }
        Ok(self)
    }
}

/// A part that another engine brings along. It begins before the first claim, is told to end when the last handler has
/// ended, and is waited for; should it end by itself, the worker shuts down.
pub(crate) struct ExtensionTask {
    pub(crate) name: &'static str,
    start: Box<dyn FnOnce(CancellationToken) -> TaskFuture + Send + Sync>,
}

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl ExtensionTask {
    pub(crate) fn run(self, end: CancellationToken) -> TaskFuture {
        (self.start)(end)
    }
}

impl fmt::Debug for ExtensionTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Companion({})", self.name)
    }
}

impl WorkerBuilder {
    /// Runs `part` beside the worker, for an engine on top of it: from before the first claim until it ends after the
    /// token is cancelled, which happens when the last handler has ended.
    pub fn background_task<P, R>(mut self, name: &'static str, part: P) -> Self
    where
        P: FnOnce(CancellationToken) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.extension_tasks.push(ExtensionTask { name, start: Box::new(move |end| Box::pin(part(end))) });
        self
    }
}

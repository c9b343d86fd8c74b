//! Extensions of a worker, such as the workflow engine: handlers, queues and background tasks that
//! are added when the worker is built.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tidemill_core::{Client, Guarantee};
use tokio_util::sync::CancellationToken;

use crate::builder::WorkerBuilder;
use crate::error::BuildError;
use crate::handler::extract::StateMap;

/// An engine on top of the worker. It collects settings while the builder is in use and is
/// installed by `build`.
pub trait Extension: Any + Send {
    /// Adds its handlers, queues and tasks to the worker.
    ///
    /// # Errors
    /// Returns an error if its settings are invalid.
    fn install(self: Box<Self>, worker: WorkerBuilder) -> Result<WorkerBuilder, BuildError>;
}

impl WorkerBuilder {
    /// Calls `configure` with the extension of type `E`, which is created on first use.
    pub fn extend<E: Extension + Default>(mut self, configure: impl FnOnce(&mut E)) -> Self {
        let is_same_type = |extension: &&mut Box<dyn Extension>| (&***extension as &dyn Any).is::<E>();
        if let Some(existing) = self.extensions.iter_mut().find(is_same_type)
            && let Some(extension) = (&mut **existing as &mut dyn Any).downcast_mut()
        {
            configure(extension);
            return self;
        }
        let mut extension = E::default();
        configure(&mut extension);
        self.extensions.push(Box::new(extension));
        self
    }

    /// The client of the worker's store.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The state that handlers share.
    pub fn states(&self) -> &StateMap {
        &self.states
    }

    /// Whether the at-least-once queue `name` was added.
    pub fn serves(&self, name: &str) -> bool {
        self.queues.iter().any(|queue| queue.name == name && queue.guarantee == Guarantee::AtLeastOnce)
    }

    /// Installs every extension.
    pub(crate) fn install(mut self) -> Result<Self, BuildError> {
        for extension in std::mem::take(&mut self.extensions) {
            self = extension.install(self)?;
        }
        Ok(self)
    }
}

/// A task of an extension. It starts before the first claim. It is asked to stop after the last
/// handler has ended, and the worker waits for it. If it ends earlier, the worker shuts down.
pub(crate) struct ExtensionTask {
    pub(crate) name: &'static str,
    start: Box<dyn FnOnce(CancellationToken) -> TaskFuture + Send + Sync>,
}

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl ExtensionTask {
    pub(crate) fn run(self, shutdown: CancellationToken) -> TaskFuture {
        (self.start)(shutdown)
    }
}

impl fmt::Debug for ExtensionTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtensionTask({})", self.name)
    }
}

impl WorkerBuilder {
    /// Runs `task` next to the worker's parts, from before the first claim. The token is cancelled
    /// after the last handler has ended; the task should then return.
    pub fn background_task<T, F>(mut self, name: &'static str, task: T) -> Self
    where
        T: FnOnce(CancellationToken) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.extension_tasks
            .push(ExtensionTask { name, start: Box::new(move |shutdown| Box::pin(task(shutdown))) });
        self
    }
}

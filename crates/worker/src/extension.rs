//! What another engine adds to a worker: handlers and queues that are known only when all of it has been described.

use std::any::Any;

use tidemill_core::{Client, Guarantee};

use crate::build::BuildError;
use crate::extract::States;
use crate::worker::Worker;

/// An engine on top of the worker. It gathers what is said to it while the worker is described, and is installed when
/// the worker is built.
pub trait Extension: Any + Send {
    /// Adds what it has come to.
    fn install(self: Box<Self>, worker: Worker) -> Result<Worker, BuildError>;
}

impl Worker {
    /// Describes an extension further; the first time, it is made.
    pub fn extend<E: Extension + Default>(mut self, describe: impl FnOnce(&mut E)) -> Self {
        let is_it = |extension: &&mut Box<dyn Extension>| (&***extension as &dyn Any).is::<E>();
        if let Some(known) = self.extensions.iter_mut().find(is_it)
            && let Some(extension) = (&mut **known as &mut dyn Any).downcast_mut()
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
    pub fn states(&self) -> &States {
        &self.states
    }

    /// Whether it has been told to serve the at-least-once queue `name`.
    pub fn serves(&self, name: &str) -> bool {
        self.queues.iter().any(|(known, delivery, _)| known == name && *delivery == Guarantee::AtLeastOnce)
    }

    /// Lets every extension add what it has to.
    pub(crate) fn install(mut self) -> Result<Self, BuildError> {
        for extension in std::mem::take(&mut self.extensions) {
            self = extension.install(self)?;
        }
        Ok(self)
    }
}

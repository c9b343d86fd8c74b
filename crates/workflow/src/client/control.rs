//! Saying something to a run that it does not answer.

use serde::Serialize;
use tidemill_core::retry::until_answered;
use tidemill_core::store::runs::Delivered;
use tidemill_core::workflow::{Json, RunEvent, RunId, StoredSignal, Topic};
use tidemill_core::{Error, JobId};

use super::error::RunError;
use super::handle::RunHandle;
use super::terminate::{Terminated, terminate};
use crate::definition::Signal;
use crate::wire::deliver;

impl<O> RunHandle<O> {
    /// Sends a signal. When this returns, the run will get it.
    pub async fn signal<T: Serialize>(&self, signal: &Signal<T>, payload: &T) -> Result<(), RunError> {
        let payload = written(&format!("the payload of signal `{}`", signal.name()), payload)?;
        self.signal_untyped(signal.name(), payload).await
    }

    /// Sends a signal whose name is known only at run time.
    pub async fn signal_untyped(&self, name: &str, payload: Json) -> Result<(), RunError> {
        self.check(&payload)?;
        let (name, id) = (Topic::new(name).map_err(Error::from)?, JobId::generate().to_string());
        self.tell(RunEvent::Signal(StoredSignal { name, payload, id: id.clone() }), id).await
    }

    /// Asks the run to end. Its code decides how, and may clean up first.
    pub async fn cancel(&self, reason: &str) -> Result<(), RunError> {
        let reason = (!reason.is_empty()).then(|| reason.to_owned());
        self.tell(RunEvent::CancelRequested { reason }, JobId::generate().to_string()).await
    }

    /// Ends the run at once, without asking its code. Its activities are cancelled, and its children treated as was said
    /// when they were started.
    pub async fn terminate(&self, reason: &str) -> Result<(), RunError> {
        match terminate(self.store(), &self.run, reason).await? {
            Terminated::Now => Ok(()),
            Terminated::Before(status) => Err(RunError::Closed { run: self.run.clone(), status }),
            Terminated::NotFound => Err(RunError::NotFound(self.run.clone())),
        }
    }

    /// Delivers an event, once however often it has to be tried.
    pub(super) async fn tell(&self, event: RunEvent, id: String) -> Result<(), RunError> {
        let store = self.store();
        let tell = || deliver(store, &self.run, event.clone(), Some(id.clone()));
        let delivered = until_answered(store.clock(), tell).await?;
        arrived(&self.run, delivered)
    }

    pub(super) fn check(&self, payload: &Json) -> Result<(), Error> {
        let (size, most) = (payload.as_str().len(), self.client.payload_limit());
        if size > most {
            return Err(Error::Invalid(format!("the payload has {size} bytes; at most {most} are allowed")));
        }
        Ok(())
    }
}

fn arrived(run: &RunId, delivered: Delivered) -> Result<(), RunError> {
    match delivered {
        Delivered::Yes | Delivered::Again => Ok(()),
        Delivered::Closed(status) => Err(RunError::Closed { run: run.clone(), status }),
        Delivered::NotFound => Err(RunError::NotFound(run.clone())),
    }
}

/// A value as JSON, or that it cannot be.
pub(super) fn written<T: Serialize>(what: &str, value: &T) -> Result<Json, Error> {
    Json::from_value(value).map_err(|error| Error::Invalid(format!("{what} is not JSON: {error}")))
}

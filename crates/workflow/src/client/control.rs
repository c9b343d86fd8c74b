//! Messages to a run without an answer: signals, cancel requests, termination.

use serde::Serialize;
use tidemill_core::retry::until_answered;
use tidemill_core::store::runs::Delivered;
use tidemill_core::workflow::{Json, RunEvent, RunId, StoredSignal, Topic};
use tidemill_core::{Error, JobId};

use super::error::RunError;
use super::handle::RunHandle;
use super::terminate::{TerminateResult, terminate};
use crate::definition::Signal;
use crate::task::deliver;

impl<O> RunHandle<O> {
    /// Sends a signal. When this returns, the signal is stored and the run will receive it.
    ///
    /// # Errors
    /// [`RunError::Closed`] if the run has ended, [`RunError::NotFound`] if it does not exist;
    /// otherwise the store's error.
    ///
    /// # Cancel safety
    /// A dropped call may have sent the signal; a second call sends a second signal.
    pub async fn signal<T: Serialize>(&self, signal: &Signal<T>, payload: &T) -> Result<(), RunError> {
        let payload = to_json(&format!("the payload of signal `{}`", signal.name()), payload)?;
        self.signal_untyped(signal.name(), payload).await
    }

    /// Sends a signal whose name is known only at run time.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    ///
    /// # Cancel safety
    /// As [`signal`](Self::signal).
    pub async fn signal_untyped(&self, name: &str, payload: Json) -> Result<(), RunError> {
        self.check_payload_size(&payload)?;
        let (name, id) = (Topic::new(name).map_err(Error::from)?, JobId::generate().to_string());
        self.send_event(RunEvent::Signal(StoredSignal { name, payload, id: id.clone() }), id).await
    }

    /// Requests the cancellation of the run. Its code decides how it ends, and may clean up first.
    ///
    /// # Errors
    /// [`RunError::Closed`] if the run has ended, [`RunError::NotFound`] if it does not exist;
    /// otherwise the store's error.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have requested it.
    pub async fn cancel(&self) -> Result<(), RunError> {
        self.cancel_with_reason("").await
    }

    /// Like [`cancel`](Self::cancel), with a reason that the journal keeps.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have requested it.
    pub async fn cancel_with_reason(&self, reason: &str) -> Result<(), RunError> {
        let reason = (!reason.is_empty()).then(|| reason.to_owned());
        self.send_event(RunEvent::CancelRequested { reason }, JobId::generate().to_string()).await
    }

    /// Ends the run at once, without running its code. Cancels its activities and applies
    /// `parent_close` to its children.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have terminated the run.
    pub async fn terminate(&self, reason: &str) -> Result<(), RunError> {
        match terminate(self.store(), &self.run, reason).await? {
            TerminateResult::Terminated => Ok(()),
            TerminateResult::AlreadyClosed(status) => Err(RunError::Closed { run: self.run.clone(), status }),
            TerminateResult::NotFound => Err(RunError::NotFound(self.run.clone())),
        }
    }

    /// Delivers an event exactly once, with retries.
    pub(super) async fn send_event(&self, event: RunEvent, id: String) -> Result<(), RunError> {
        let store = self.store();
        let tell = || deliver(store, &self.run, event.clone(), Some(id.clone()));
        let delivered = until_answered(store.clock(), tell).await?;
        check_delivered(&self.run, delivered)
    }

    pub(super) fn check_payload_size(&self, payload: &Json) -> Result<(), Error> {
        Error::check_size("the payload", payload.as_str().len(), self.client.payload_limit())
    }
}

fn check_delivered(run: &RunId, delivered: Delivered) -> Result<(), RunError> {
    match delivered {
        Delivered::Yes | Delivered::Duplicate => Ok(()),
        Delivered::Closed(status) => Err(RunError::Closed { run: run.clone(), status }),
        Delivered::NotFound => Err(RunError::NotFound(run.clone())),
    }
}

/// Serializes a value; `what` names it in the error.
pub(super) fn to_json<T: Serialize>(what: &str, value: &T) -> Result<Json, Error> {
    Json::from_value(value).map_err(|error| Error::Invalid(format!("{what} is not JSON: {error}")))
}

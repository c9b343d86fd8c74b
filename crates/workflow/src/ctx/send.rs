//! Sending signals to other runs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use tidemill_core::workflow::{Command, Json, RunId, SignalDelivery, Topic};

use super::future::{CtxFuture, IssueError};
use super::{Ctx, Draft};
use crate::definition::Signal;
use crate::error::SignalError;
use crate::state::{WaitResult, WaitTarget};

impl Ctx {
    /// Sends a signal to another run and waits until it is delivered.
    pub fn signal<T: Serialize>(&self, run: &RunId, signal: &Signal<T>, payload: &T) -> SendSignal {
        let name = signal.name();
        SendSignal { inner: CtxFuture::new(self), name, draft: Some(draft_signal(run, name, payload)) }
    }
}

/// The parameters of a signal.
struct SignalParams {
    run: RunId,
    name: Topic,
    payload: Json,
}

/// The future of a signal's delivery.
#[must_use = "a signal is sent when this is awaited"]
pub struct SendSignal {
    inner: CtxFuture,
    name: &'static str,
    draft: Option<Draft<SignalParams>>,
}

fn draft_signal(run: &RunId, name: &str, payload: &impl Serialize) -> Draft<SignalParams> {
    let name = Topic::new(name).map_err(|error| error.to_string())?;
    let payload = Json::from_value(payload).map_err(|error| error.to_string())?;
    Ok(Box::new(SignalParams { run: run.clone(), name, payload }))
}

impl SendSignal {
    fn issue(&mut self) -> Result<(), SignalError> {
        match self.draft.take() {
            None => Ok(()),
            Some(Ok(draft)) => {
                let SignalParams { run, name, payload } = *draft;
                let (signal, size) = (self.name, payload.as_str().len());
                let command = |_: &_, seq| Command::SignalRun { seq, run, name, payload };
                let issued = self.inner.issue_with_payload(WaitTarget::SendSignal(signal), size, command);
                issued.map_err(|error| match error {
                    IssueError::Cancelled => SignalError::Cancelled { signal },
                    IssueError::TooLarge(too_large) => SignalError::TooLarge { signal, too_large },
                })
            }
            Some(Err(message)) => {
                self.inner.shared.lock().block_unreadable(format!("signal `{}`", self.name), message);
                Ok(())
            }
        }
    }
}

impl Future for SendSignal {
    type Output = Result<(), SignalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.issue()?;
        Poll::Ready(match ready!(self.inner.poll(cx)) {
            WaitResult::SignalSent(SignalDelivery::Failed { message }) => {
                Err(SignalError::Undelivered { signal: self.name, message })
            }
            _ => Ok(()),
        })
    }
}

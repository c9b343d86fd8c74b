//! Sending signals to other runs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use tidemill_core::workflow::{Command, Json, RunId, SignalDelivery, Topic};

use super::future::{CtxFuture, IssueError};
use super::{Ctx, refuse};
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

type SignalDraft = Result<Box<(RunId, Topic, Json)>, String>;

/// The future of a signal's delivery.
#[must_use = "a signal is sent when this is awaited"]
pub struct SendSignal {
    inner: CtxFuture,
    name: &'static str,
    draft: Option<SignalDraft>,
}

fn draft_signal(run: &RunId, name: &str, payload: &impl Serialize) -> SignalDraft {
    let name = Topic::new(name).map_err(|error| error.to_string())?;
    let payload = Json::from_value(payload).map_err(|error| error.to_string())?;
    Ok(Box::new((run.clone(), name, payload)))
}

impl SendSignal {
    fn issue(&mut self) -> Result<(), SignalError> {
        match self.draft.take() {
            None => Ok(()),
            Some(Ok(draft)) => {
                let (run, name, payload) = *draft;
                let (signal, size) = (self.name, payload.as_str().len());
                let command = |_: &_, seq| Command::SignalRun { seq, run, name, payload };
                let asked = self.inner.issue_with_payload(WaitTarget::SendSignal(signal), size, command);
                asked.map_err(|refused| match refused {
                    IssueError::Cancelled => SignalError::Cancelled { signal },
                    IssueError::TooLarge(too_large) => SignalError::TooLarge { signal, too_large },
                })
            }
            Some(Err(message)) => {
                refuse(&mut self.inner.shared.lock(), format!("signal `{}`", self.name), message);
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

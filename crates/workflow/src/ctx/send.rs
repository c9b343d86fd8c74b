//! Sending signals to other runs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use tidemill_core::workflow::{Command, Json, RunId, SignalDelivery, Topic};

use super::leaf::{Leaf, Refused};
use super::{Ctx, refuse};
use crate::definition::Signal;
use crate::error::SignalError;
use crate::state::{On, Outcome};

impl Ctx {
    /// Sends a signal to another run, and waits until it has arrived there.
    pub fn signal<T: Serialize>(&self, run: &RunId, signal: &Signal<T>, payload: &T) -> SendSignal {
        let name = signal.name();
        SendSignal { leaf: Leaf::of(self), name, draft: Some(draft(run, name, payload)) }
    }
}

type Draft = Result<Box<(RunId, Topic, Json)>, String>;

/// A signal on its way.
#[must_use = "a signal is sent when this is awaited"]
pub struct SendSignal {
    leaf: Leaf,
    name: &'static str,
    draft: Option<Draft>,
}

fn draft(run: &RunId, name: &str, payload: &impl Serialize) -> Draft {
    let name = Topic::new(name).map_err(|error| error.to_string())?;
    let payload = Json::from_value(payload).map_err(|error| error.to_string())?;
    Ok(Box::new((run.clone(), name, payload)))
}

impl SendSignal {
    fn begin(&mut self) -> Result<(), SignalError> {
        match self.draft.take() {
            None => Ok(()),
            Some(Ok(draft)) => {
                let (run, name, payload) = *draft;
                let (signal, size) = (self.name, payload.as_str().len());
                let command = |_: &_, seq| Command::SignalRun { seq, run, name, payload };
                let asked = self.leaf.hand_on(On::Sent(signal), size, command);
                asked.map_err(|refused| match refused {
                    Refused::Cancelled => SignalError::Cancelled { signal },
                    Refused::TooLarge(too_large) => SignalError::TooLarge { signal, too_large },
                })
            }
            Some(Err(message)) => {
                refuse(&mut self.leaf.shared.lock(), format!("signal `{}`", self.name), message);
                Ok(())
            }
        }
    }
}

impl Future for SendSignal {
    type Output = Result<(), SignalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin()?;
        Poll::Ready(match ready!(self.leaf.poll(cx)) {
            Outcome::Sent(SignalDelivery::Failed { message }) => {
                Err(SignalError::Undelivered { signal: self.name, message })
            }
            _ => Ok(()),
        })
    }
}

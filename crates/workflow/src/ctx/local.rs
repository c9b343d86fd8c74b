//! Local activities: short ones that run inside the task, with no job of their own.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::Kind;
use tidemill_core::workflow::{Json, RetryPolicy};

use super::activity::ended;
use super::leaf::Leaf;
use super::{Ctx, refuse};
use crate::definition::Activity;
use crate::error::ActivityError;
use crate::machine::LocalTask;
use crate::state::On;

impl Ctx {
    /// Runs an activity inside this task: for what is short, and may run again if the worker dies meanwhile. Its
    /// result is part of the commit.
    pub fn local<I: Serialize, O>(&self, activity: &Activity<I, O>, input: I) -> LocalCall<O> {
        let name = activity.name();
        LocalCall { leaf: Leaf::of(self), name, draft: Some(draft(name, &input)), output: PhantomData }
    }
}

type Draft = Result<Box<LocalTask>, String>;

/// A local activity, not yet ended.
#[must_use = "a local activity runs when it is awaited"]
pub struct LocalCall<O> {
    leaf: Leaf,
    name: &'static str,
    draft: Option<Draft>,
    output: PhantomData<fn() -> O>,
}

fn draft(name: &str, input: &impl Serialize) -> Draft {
    Ok(Box::new(LocalTask {
        seq: 0,
        name: Kind::new(name).map_err(|error| error.to_string())?,
        input: Json::from_value(input).map_err(|error| error.to_string())?,
        retry: RetryPolicy::default(),
        timeout: None,
    }))
}

impl<O> LocalCall<O> {
    /// Gives each attempt this long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Some(Ok(draft)) = &mut self.draft {
            draft.timeout = Some(timeout);
        }
        self
    }

    /// Retries it like this.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        if let Some(Ok(draft)) = &mut self.draft {
            draft.retry = retry;
        }
        self
    }

    fn begin(&mut self) -> Result<(), ActivityError> {
        match self.draft.take() {
            None => Ok(()),
            Some(Ok(draft)) => self.leaf.ask_local(self.name, *draft),
            Some(Err(message)) => {
                let what = format!("what local activity `{}` is called with", self.name);
                refuse(&mut self.leaf.shared.lock(), what, message);
                Ok(())
            }
        }
    }
}

impl Leaf {
    /// Numbers a local activity and hands it to the machine's owner. It becomes a command when it has ended.
    fn ask_local(&mut self, name: &'static str, mut task: LocalTask) -> Result<(), ActivityError> {
        let mut state = self.shared.lock();
        if state.cancelling && !self.is_shielded() {
            return Err(ActivityError::Cancelled { activity: name });
        }
        if !state.allows(&format_args!("local activity `{name}`")) || state.is_stopped() {
            return Ok(());
        }
        task.seq = state.next_seq();
        let (seq, since) = (task.seq, state.now);
        state.waits.open(seq, On::Local(name), true, since);
        if state.script.is_live() {
            state.locals.push(task);
        }
        drop(state);
        self.adopt(seq);
        Ok(())
    }
}

impl<O: DeserializeOwned> Future for LocalCall<O> {
    type Output = Result<O, ActivityError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(cancelled) = self.begin() {
            return Poll::Ready(Err(cancelled));
        }
        let outcome = ready!(self.leaf.poll(cx));
        ended(&self.leaf, self.name, outcome)
    }
}

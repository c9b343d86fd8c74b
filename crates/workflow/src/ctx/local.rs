//! Local activities: short activities that run inside the task, without a job.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::Kind;
use tidemill_core::workflow::{Json, RetryPolicy};

use super::activity::activity_result;
use super::future::CtxFuture;
use super::{Ctx, Draft};
use crate::definition::Activity;
use crate::error::ActivityError;
use crate::replay::LocalActivity;
use crate::state::WaitTarget;

impl Ctx {
    /// Runs an activity inside this task. It should be short, and may run again if the worker dies.
    /// Its result is part of the commit.
    pub fn local<I: Serialize, O>(&self, activity: &Activity<I, O>, input: I) -> LocalCall<O> {
        let name = activity.name();
        LocalCall {
            inner: CtxFuture::new(self),
            name,
            draft: Some(draft_local(name, &input)),
            output: PhantomData,
        }
    }
}

/// The future of a local activity.
#[must_use = "a local activity runs when it is awaited"]
pub struct LocalCall<O> {
    inner: CtxFuture,
    name: &'static str,
    draft: Option<Draft<LocalActivity>>,
    output: PhantomData<fn() -> O>,
}

fn draft_local(name: &str, input: &impl Serialize) -> Draft<LocalActivity> {
    Ok(Box::new(LocalActivity {
        seq: 0,
        name: Kind::new(name).map_err(|error| error.to_string())?,
        input: Json::from_value(input).map_err(|error| error.to_string())?,
        retry: RetryPolicy::default(),
        timeout: None,
    }))
}

impl<O> LocalCall<O> {
    /// Sets the timeout of one attempt.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Some(Ok(draft)) = &mut self.draft {
            draft.timeout = Some(timeout);
        }
        self
    }

    /// Sets the retry policy.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        if let Some(Ok(draft)) = &mut self.draft {
            draft.retry = retry;
        }
        self
    }

    fn issue(&mut self) -> Result<(), ActivityError> {
        match self.draft.take() {
            None => Ok(()),
            Some(Ok(draft)) => self.inner.issue_local(self.name, *draft),
            Some(Err(message)) => {
                let what = format!("what local activity `{}` is called with", self.name);
                self.inner.shared.lock().block_unreadable(what, message);
                Ok(())
            }
        }
    }
}

impl CtxFuture {
    /// Numbers a local activity and queues it for the replayer's caller. It becomes a command when
    /// it has ended.
    fn issue_local(&mut self, name: &'static str, mut task: LocalActivity) -> Result<(), ActivityError> {
        let mut state = self.shared.lock();
        if state.cancel_requested && !self.is_shielded() {
            return Err(ActivityError::Cancelled { activity: name });
        }
        if !state.may_change_run(&format_args!("local activity `{name}`")) || state.is_stopped() {
            return Ok(());
        }
        task.seq = state.next_seq();
        let (seq, since) = (task.seq, state.now);
        state.waits.open(seq, WaitTarget::LocalActivity(name), true, since);
        if state.commands.is_live() {
            state.new_locals.push(task);
        }
        drop(state);
        self.attach(seq);
        Ok(())
    }
}

impl<O: DeserializeOwned> Future for LocalCall<O> {
    type Output = Result<O, ActivityError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(cancelled) = self.issue() {
            return Poll::Ready(Err(cancelled));
        }
        let result = ready!(self.inner.poll(cx));
        activity_result(&self.inner, self.name, result)
    }
}

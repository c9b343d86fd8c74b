//! Activities: jobs that a run waits for.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::clock::millis;
use tidemill_core::workflow::{ActivityResult, Command, Json, RetryPolicy, ScheduleActivity};
use tidemill_core::{Kind, QueueName};

use super::future::{CtxFuture, IssueError};
use super::{Ctx, Draft};
use crate::definition::{Activity, DEFAULT_ACTIVITY_QUEUE};
use crate::error::ActivityError;
use crate::state::{WaitResult, WaitTarget};

impl Ctx {
    /// Runs an activity as a job, on any worker that registers it. Scheduled on the first poll;
    /// cancelled if dropped before it has ended.
    pub fn activity<I: Serialize, O>(&self, activity: &Activity<I, O>, input: I) -> ActivityCall<O> {
        let name = activity.name();
        let draft = Some(draft_activity(activity, &input));
        ActivityCall { inner: CtxFuture::new(self), name, draft, output: PhantomData }
    }
}

/// The future of an activity.
#[must_use = "an activity is scheduled when it is awaited"]
pub struct ActivityCall<O> {
    inner: CtxFuture,
    name: &'static str,
    /// Taken when it is scheduled. Boxed, because the workflow's future stores it for as long as it
    /// waits.
    draft: Option<Draft<ScheduleActivity>>,
    output: PhantomData<fn() -> O>,
}

fn draft_activity<I: Serialize, O>(activity: &Activity<I, O>, input: &I) -> Draft<ScheduleActivity> {
    let queue =
        (activity.queue_name() != DEFAULT_ACTIVITY_QUEUE).then(|| QueueName::new(activity.queue_name()));
    Ok(Box::new(ScheduleActivity {
        seq: 0,
        name: Kind::new(activity.name()).map_err(|error| error.to_string())?,
        input: Json::from_value(input).map_err(|error| error.to_string())?,
        queue: queue.transpose().map_err(|error| error.to_string())?,
        retry: RetryPolicy::default(),
        start_to_close_ms: None,
        schedule_to_close_ms: None,
        heartbeat_ms: None,
    }))
}

impl<O> ActivityCall<O> {
    /// Sets the timeout of one attempt (start to close).
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|draft| draft.start_to_close_ms = Some(whole_millis(timeout)))
    }

    /// Sets the timeout of all attempts together (schedule to close).
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|draft| draft.schedule_to_close_ms = Some(whole_millis(deadline)))
    }

    /// Sets the heartbeat timeout: an attempt without a heartbeat for this long has failed.
    pub fn heartbeat(self, silence: Duration) -> Self {
        self.change(|draft| draft.heartbeat_ms = Some(whole_millis(silence)))
    }

    /// Sets the retry policy.
    pub fn retry(self, retry: RetryPolicy) -> Self {
        self.change(|draft| draft.retry = retry)
    }

    /// Sets the queue.
    pub fn queue(mut self, queue: &str) -> Self {
        match QueueName::new(queue) {
            Ok(queue) => self.change(|draft| draft.queue = Some(queue)),
            Err(error) => {
                self.draft = Some(Err(error.to_string()));
                self
            }
        }
    }

    fn change(mut self, change: impl FnOnce(&mut ScheduleActivity)) -> Self {
        if let Some(Ok(draft)) = &mut self.draft {
            change(draft);
        }
        self
    }

    /// Schedules the activity on the first poll.
    fn issue(&mut self) -> Result<(), ActivityError> {
        let activity = self.name;
        match self.draft.take() {
            None => Ok(()),
            Some(Ok(mut draft)) => {
                let size = draft.input.as_str().len();
                let issued = self.inner.issue_with_payload(WaitTarget::Activity(activity), size, |_, seq| {
                    draft.seq = seq;
                    Command::ScheduleActivity(draft)
                });
                issued.map_err(|error| match error {
                    IssueError::Cancelled => ActivityError::Cancelled { activity },
                    IssueError::TooLarge(too_large) => ActivityError::TooLarge { activity, too_large },
                })
            }
            Some(Err(message)) => {
                let what = format!("what activity `{}` is called with", self.name);
                self.inner.shared.lock().block_unreadable(what, message);
                Ok(())
            }
        }
    }
}

impl<O: DeserializeOwned> Future for ActivityCall<O> {
    type Output = Result<O, ActivityError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(error) = self.issue() {
            return Poll::Ready(Err(error));
        }
        let result = ready!(self.inner.poll(cx));
        activity_result(&self.inner, self.name, result)
    }
}

/// Converts the result of a wait into the result of an activity.
pub(super) fn activity_result<O: DeserializeOwned>(
    inner: &CtxFuture,
    activity: &'static str,
    result: WaitResult,
) -> Poll<Result<O, ActivityError>> {
    match result {
        WaitResult::Activity(ActivityResult::Ok(json)) => {
            inner.deserialize(&json, || format!("the result of activity `{activity}`")).map(Ok)
        }
        WaitResult::Activity(ActivityResult::Failed(failure)) => {
            Poll::Ready(Err(ActivityError::from_failure(activity, failure)))
        }
        _ => Poll::Ready(Err(ActivityError::Cancelled { activity })),
    }
}

pub(super) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(millis(duration)).unwrap_or(0)
}

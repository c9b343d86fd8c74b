//! Activities: jobs a run waits for.

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

use super::leaf::{Leaf, Refused};
use super::{Ctx, refuse};
use crate::definition::{ACTIVITIES, Activity};
use crate::error::ActivityError;
use crate::state::{On, Outcome};

impl Ctx {
    /// Runs an activity: a job on any worker that knows it. Scheduled when it is first polled; dropped before it
    /// ended, it is cancelled.
    pub fn activity<I: Serialize, O>(&self, activity: &Activity<I, O>, input: I) -> ActivityCall<O> {
        let name = activity.name();
        let draft = Some(draft(activity, &input));
        ActivityCall { leaf: Leaf::of(self), name, draft, output: PhantomData }
    }
}

type Draft = Result<Box<ScheduleActivity>, String>;

/// An activity, not yet ended.
#[must_use = "an activity is scheduled when it is awaited"]
pub struct ActivityCall<O> {
    leaf: Leaf,
    name: &'static str,
    /// Until it is scheduled. In a box, because the code's future holds it for as long as it waits.
    draft: Option<Draft>,
    output: PhantomData<fn() -> O>,
}

fn draft<I: Serialize, O>(activity: &Activity<I, O>, input: &I) -> Draft {
    let queue = (activity.queue_name() != ACTIVITIES).then(|| QueueName::new(activity.queue_name()));
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
    /// Gives each attempt this long (start to close).
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|draft| draft.start_to_close_ms = Some(whole(timeout)))
    }

    /// Gives all attempts together this long (schedule to close).
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|draft| draft.schedule_to_close_ms = Some(whole(deadline)))
    }

    /// Gives up an attempt that shows no sign of life for this long.
    pub fn heartbeat(self, silence: Duration) -> Self {
        self.change(|draft| draft.heartbeat_ms = Some(whole(silence)))
    }

    /// Retries it like this.
    pub fn retry(self, retry: RetryPolicy) -> Self {
        self.change(|draft| draft.retry = retry)
    }

    /// Sends it to this queue.
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

    /// Schedules it, the first time it is polled.
    fn begin(&mut self) -> Result<(), ActivityError> {
        let activity = self.name;
        match self.draft.take() {
            None => Ok(()),
            Some(Ok(mut draft)) => {
                let size = draft.input.as_str().len();
                let asked = self.leaf.hand_on(On::Activity(activity), size, |_, seq| {
                    draft.seq = seq;
                    Command::ScheduleActivity(draft)
                });
                asked.map_err(|refused| match refused {
                    Refused::Cancelled => ActivityError::Cancelled { activity },
                    Refused::TooLarge(too_large) => ActivityError::TooLarge { activity, too_large },
                })
            }
            Some(Err(message)) => {
                let what = format!("what activity `{}` is called with", self.name);
                refuse(&mut self.leaf.shared.lock(), what, message);
                Ok(())
            }
        }
    }
}

impl<O: DeserializeOwned> Future for ActivityCall<O> {
    type Output = Result<O, ActivityError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(refused) = self.begin() {
            return Poll::Ready(Err(refused));
        }
        let outcome = ready!(self.leaf.poll(cx));
        ended(&self.leaf, self.name, outcome)
    }
}

/// What an activity came to, for whoever awaits it.
pub(super) fn ended<O: DeserializeOwned>(
    leaf: &Leaf,
    activity: &'static str,
    outcome: Outcome,
) -> Poll<Result<O, ActivityError>> {
    match outcome {
        Outcome::Activity(ActivityResult::Ok(json)) => {
            leaf.read(&json, || format!("the result of activity `{activity}`")).map(Ok)
        }
        Outcome::Activity(ActivityResult::Failed(failure)) => {
            Poll::Ready(Err(ActivityError::of(activity, failure)))
        }
        _ => Poll::Ready(Err(ActivityError::Cancelled { activity })),
    }
}

pub(super) fn whole(duration: Duration) -> u64 {
    u64::try_from(millis(duration)).unwrap_or(0)
}

//! Mock activities: closures, with the retries and timeouts that a store would apply.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::clock::millis;
use tidemill_core::workflow::{
    ActivityFailure, ActivityResult, FailureKind, Json, RetryPolicy, ScheduleActivity, Timeout,
};

use crate::definition::Activity;
use crate::replay::LocalActivity;

type MockFn = Box<dyn FnMut(&Json) -> Result<Json, String> + Send>;

struct Mock {
    code: MockFn,
    /// How long an attempt takes, in milliseconds of virtual time.
    duration: i64,
}

/// The mock activities of a world.
#[derive(Default)]
pub(super) struct Mocks(HashMap<&'static str, Mock>);

impl Mocks {
    pub(super) fn add<I, O, E>(
        &mut self,
        activity: &Activity<I, O>,
        takes: Duration,
        mut code: impl FnMut(I) -> Result<O, E> + Send + 'static,
    ) where
        I: DeserializeOwned,
        O: Serialize,
        E: Display,
    {
        let code = move |input: &Json| {
            let input = input.read().map_err(|error| format!("the input does not fit: {error}"))?;
            let output = code(input).map_err(|error| error.to_string())?;
            Json::from_value(&output).map_err(|error| error.to_string())
        };
        self.0.insert(activity.name(), Mock { code: Box::new(code), duration: millis(takes) });
    }

    /// Runs an activity. Returns its duration in milliseconds and its result.
    pub(super) fn run(&mut self, activity: &ScheduleActivity) -> (i64, ActivityResult) {
        let (name, retry) = (activity.name.as_str(), activity.retry);
        let Some(mock) = self.0.get_mut(name) else { return (0, missing(name)) };
        let mut elapsed = 0;
        let limit = activity.start_to_close_ms.map_or(i64::MAX, clamp_to_i64);
        let total = activity.schedule_to_close_ms.map_or(i64::MAX, clamp_to_i64);
        for attempt in 1..=retry.max_attempts {
            let late = mock.duration > limit;
            elapsed += mock.duration.min(limit);
            if elapsed > total {
                return (
                    total,
                    failure(FailureKind::TimedOut(Timeout::ScheduleToClose), attempt, "too late"),
                );
            }
            let kind = if late { FailureKind::TimedOut(Timeout::StartToClose) } else { FailureKind::Failed };
            let message = match (mock.code)(&activity.input) {
                Ok(output) if !late => return (elapsed, ActivityResult::Ok(output)),
                Ok(_) => "too late".to_owned(),
                Err(message) => message,
            };
            if attempt == retry.max_attempts {
                return (elapsed, failure(kind, attempt, &message));
            }
            elapsed += millis(retry.backoff().delay(attempt - 1, 0.0));
        }
        (elapsed, failure(FailureKind::Failed, 0, "it may never be tried"))
    }

    /// Runs a local activity. Returns its result and the number of attempts.
    pub(super) fn run_local(&mut self, task: &LocalActivity) -> (ActivityResult, u32) {
        let Some(mock) = self.0.get_mut(task.name.as_str()) else { return (missing(task.name.as_str()), 1) };
        let RetryPolicy { max_attempts, .. } = task.retry;
        let mut last = String::new();
        for attempt in 1..=max_attempts {
            match (mock.code)(&task.input) {
                Ok(output) => return (ActivityResult::Ok(output), attempt),
                Err(message) => last = message,
            }
        }
        (failure(FailureKind::Failed, max_attempts, &last), max_attempts)
    }
}

fn clamp_to_i64(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn missing(name: &str) -> ActivityResult {
    failure(FailureKind::Failed, 1, &format!("this world has no activity `{name}`"))
}

fn failure(kind: FailureKind, attempts: u32, message: &str) -> ActivityResult {
    ActivityResult::Failed(ActivityFailure { message: message.to_owned(), kind, attempts })
}

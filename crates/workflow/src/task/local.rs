//! Local activities: run inside the task, under its lease, with their own retries.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tidemill_core::envelope::{Edit, JobOptions, Meta};
use tidemill_core::workflow::{
    ActivityFailure, ActivityResult, Commit, FailureKind, Json, RunId, Timeout, WorkflowName,
};
use tidemill_core::{Clock, Envelope, Error, Outcome};
use tidemill_worker::JobContext;

use super::TaskHandler;
use super::activity::ActivityCode;
use super::postpone::PostponeReason;
use crate::replay::{Advance, LocalActivity, Replayer};

/// A running local activity: returns its number, its result, and the number of attempts.
type LocalFuture = Pin<Box<dyn Future<Output = (u64, ActivityResult, u32)> + Send>>;

impl TaskHandler {
    /// Runs local activities concurrently until the code waits for events.
    pub(super) async fn run_locals(
        &self,
        replayer: &mut Replayer,
        tasks: Vec<LocalActivity>,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Commit, PostponeReason> {
        let workflow = replayer.program().name().clone();
        let mut running = FuturesUnordered::new();
        let mut next = tasks;
        loop {
            for task in next {
                running.push(self.start_local(&workflow, task, run, cx)?);
            }
            let Some((seq, end, attempts)) = running.next().await else {
                // Unreachable: the code waits for a local activity that it did not issue.
                return Err(PostponeReason::NotYet("a local activity is missing".to_owned()));
            };
            replayer.finish_local(seq, end, attempts);
            next = match replayer.advance([])? {
                Advance::Commit(commit) => return Ok(commit),
                Advance::Local(tasks) => tasks,
            };
        }
    }

    fn start_local(
        &self,
        workflow: &WorkflowName,
        task: LocalActivity,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<LocalFuture, PostponeReason> {
        let (workflow, activity) = (workflow.clone(), task.name.clone());
        let code = self
            .local_activities
            .get(&task.name)
            .ok_or(PostponeReason::NoLocalActivity { workflow, activity })?
            .clone();
        let (run, cx) = (run.clone(), cx.clone());
        Ok(Box::pin(async move {
            let (end, attempts) = run_local(&code, &task, &run, &cx).await;
            (task.seq, end, attempts)
        }))
    }
}

async fn run_local(
    code: &ActivityCode,
    task: &LocalActivity,
    run: &RunId,
    cx: &JobContext,
) -> (ActivityResult, u32) {
    let store = cx.client().store();
    let (clock, max_attempts) = (store.clock(), task.retry.max_attempts.max(1));
    let mut attempt = 1;
    loop {
        let outcome = match local_envelope(task, run, attempt - 1, clock) {
            Ok(envelope) => run_attempt(code, task, cx.nested(envelope, None), clock).await,
            Err(error) => Outcome::Discard(error.to_string()),
        };
        let (kind, error, after) = match outcome {
            Outcome::Snooze(delay) => {
                clock.sleep(delay).await;
                continue;
            }
            Outcome::Retry { error, after } => (FailureKind::Failed, error, after),
            Outcome::TimedOut { what, error } => (FailureKind::TimedOut(what), error, None),
            outcome => return (final_result(outcome, attempt), attempt),
        };
        if attempt >= max_attempts {
            return (failure(error, kind, attempt), attempt);
        }
        let delay = task.retry.backoff().delay(attempt - 1, fastrand::f64());
        clock.sleep(after.unwrap_or(delay)).await;
        attempt += 1;
    }
}

/// The envelope of a local activity, as if it were a job.
fn local_envelope(
    task: &LocalActivity,
    run: &RunId,
    attempts: u32,
    clock: &dyn Clock,
) -> Result<Envelope, Error> {
    let meta = Meta {
        correlation_id: Some(run.as_str()),
        user_id: None,
        enqueue_ts: clock.now(),
        source: "workflow",
    };
    let draft = JobOptions {
        kind: &task.name,
        max_attempts: task.retry.max_attempts,
        timeout: task.timeout,
        keep_result: None,
        backoff: None,
        tracked: true,
        activity: None,
        meta,
    };
    let filled = draft.template().fill(&run.part(task.seq), &task.input);
    let (bytes, _) = filled.map_err(|error| Error::Invalid(error.to_string()))?;
    let edited = Envelope::read(bytes)?.edit(&[Edit::Number("attempts", attempts.into())])?;
    Ok(Envelope::read(edited)?)
}

async fn run_attempt(
    code: &ActivityCode,
    task: &LocalActivity,
    cx: JobContext,
    clock: &dyn Clock,
) -> Outcome {
    let attempt = AssertUnwindSafe(code(cx)).catch_unwind();
    let Some(timeout) = task.timeout else { return catch_panic(attempt.await) };
    match select(Box::pin(attempt), clock.sleep(timeout)).await {
        Either::Left((outcome, _)) => catch_panic(outcome),
        Either::Right(_) => timeout_outcome(timeout),
    }
}

fn catch_panic(outcome: std::thread::Result<Outcome>) -> Outcome {
    outcome.unwrap_or_else(|_| Outcome::Retry { error: "the local activity panicked".into(), after: None })
}

fn timeout_outcome(timeout: Duration) -> Outcome {
    let error = format!("the local activity did not end within {timeout:?}");
    Outcome::TimedOut { what: Timeout::StartToClose, error }
}

/// The result of an outcome that is not retried.
fn final_result(outcome: Outcome, attempt: u32) -> ActivityResult {
    match outcome {
        Outcome::Done(output) => match Json::from_text(String::from_utf8_lossy(&output)) {
            Ok(json) => ActivityResult::Ok(json),
            Err(error) => failure(error.to_string(), FailureKind::Failed, attempt),
        },
        Outcome::Dead(cause) => {
            let error = cause.error.unwrap_or_else(|| cause.reason.to_string());
            failure(error, FailureKind::Failed, attempt)
        }
        Outcome::Discard(why) => failure(why, FailureKind::Cancelled, attempt),
        _ => failure("it ended in a way that a local activity cannot".into(), FailureKind::Failed, attempt),
    }
}

fn failure(message: String, kind: FailureKind, attempts: u32) -> ActivityResult {
    ActivityResult::Failed(ActivityFailure { message, kind, attempts })
}

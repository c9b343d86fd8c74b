//! Local activities: run inside the task, under its lease, with retries of their own.

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

use super::Host;
use super::activity::ActivityCode;
use super::setback::Setback;
use crate::machine::{Advance, LocalTask, Machine};

/// A local activity under way: its number, how it ended, and in which attempt.
type Running = Pin<Box<dyn Future<Output = (u64, ActivityResult, u32)> + Send>>;

impl Host {
    /// Runs local activities, all that the code waits for at once, until it waits for events.
    pub(super) async fn run_locals(
        &self,
        machine: &mut Machine,
        tasks: Vec<LocalTask>,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Commit, Setback> {
        let workflow = machine.program().name().clone();
        let mut running = FuturesUnordered::new();
        let mut next = tasks;
        loop {
            for task in next {
                running.push(self.local(&workflow, task, run, cx)?);
            }
            let Some((seq, end, attempts)) = running.next().await else {
                // The code waits for one that it has not asked for, which cannot be.
                return Err(Setback::NotYet("a local activity is missing".to_owned()));
            };
            machine.finish_local(seq, end, attempts);
            next = match machine.advance([])? {
                Advance::Commit(commit) => return Ok(commit),
                Advance::Local(tasks) => tasks,
            };
        }
    }

    fn local(
        &self,
        workflow: &WorkflowName,
        task: LocalTask,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Running, Setback> {
        let (workflow, activity) = (workflow.clone(), task.name.clone());
        let code = self.locals.get(&task.name).ok_or(Setback::NoLocal { workflow, activity })?.clone();
        let (run, cx) = (run.clone(), cx.clone());
        Ok(Box::pin(async move {
            let (end, attempts) = run_local(&code, &task, &run, &cx).await;
            (task.seq, end, attempts)
        }))
    }
}

async fn run_local(
    code: &ActivityCode,
    task: &LocalTask,
    run: &RunId,
    cx: &JobContext,
) -> (ActivityResult, u32) {
    let store = cx.client().store();
    let (clock, most) = (store.clock(), task.retry.max_attempts.max(1));
    let mut attempt = 1;
    loop {
        let outcome = match envelope(task, run, attempt - 1, clock) {
            Ok(envelope) => attempted(code, task, cx.nested(envelope, None), clock).await,
            Err(error) => Outcome::Discard(error.to_string()),
        };
        let (kind, error, after) = match outcome {
            Outcome::Snooze(rest) => {
                clock.sleep(rest).await;
                continue;
            }
            Outcome::Retry { error, after } => (FailureKind::Failed, error, after),
            Outcome::TimedOut { what, error } => (FailureKind::TimedOut(what), error, None),
            other => return (ended(other, attempt), attempt),
        };
        if attempt >= most {
            return (failed(error, kind, attempt), attempt);
        }
        let rest = task.retry.backoff().delay(attempt - 1, fastrand::f64());
        clock.sleep(after.unwrap_or(rest)).await;
        attempt += 1;
    }
}

/// A local activity sees an envelope as if it were a job.
fn envelope(task: &LocalTask, run: &RunId, attempts: u32, clock: &dyn Clock) -> Result<Envelope, Error> {
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
        tracked: true,
        terms: None,
        meta,
    };
    let filled = draft.template().fill(&run.part(task.seq), &task.input);
    let (bytes, _) = filled.map_err(|error| Error::Invalid(error.to_string()))?;
    let edited = Envelope::read(bytes)?.edit(&[Edit::Number("attempts", attempts.into())])?;
    Ok(Envelope::read(edited)?)
}

async fn attempted(code: &ActivityCode, task: &LocalTask, cx: JobContext, clock: &dyn Clock) -> Outcome {
    let attempt = AssertUnwindSafe(code(cx)).catch_unwind();
    let Some(timeout) = task.timeout else { return caught(attempt.await) };
    match select(Box::pin(attempt), clock.sleep(timeout)).await {
        Either::Left((outcome, _)) => caught(outcome),
        Either::Right(_) => timed_out(timeout),
    }
}

fn caught(outcome: std::thread::Result<Outcome>) -> Outcome {
    outcome.unwrap_or_else(|_| Outcome::Retry { error: "the local activity panicked".into(), after: None })
}

fn timed_out(timeout: Duration) -> Outcome {
    let error = format!("the local activity did not end within {timeout:?}");
    Outcome::TimedOut { what: Timeout::StartToClose, error }
}

/// What an outcome that is not tried again comes to.
fn ended(outcome: Outcome, attempt: u32) -> ActivityResult {
    match outcome {
        Outcome::Done(output) => match Json::from_text(String::from_utf8_lossy(&output)) {
            Ok(json) => ActivityResult::Ok(json),
            Err(error) => failed(error.to_string(), FailureKind::Failed, attempt),
        },
        Outcome::Dead(cause) => {
            let error = cause.error.unwrap_or_else(|| cause.reason.to_string());
            failed(error, FailureKind::Failed, attempt)
        }
        Outcome::Discard(why) => failed(why, FailureKind::Cancelled, attempt),
        _ => failed("it ended in a way that a local activity cannot".into(), FailureKind::Failed, attempt),
    }
}

fn failed(message: String, kind: FailureKind, attempts: u32) -> ActivityResult {
    ActivityResult::Failed(ActivityFailure { message, kind, attempts })
}

//! One attempt: polls its future, catches panics, enforces timeouts, and stops it on request.

use std::any::Any;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidemill_core::workflow::Timeout;
use tidemill_core::{Clock, Outcome, Timestamp};

use crate::handler::AttemptFuture;
use crate::leases::{ClaimedJob, StopReason};

/// The time limits of an attempt.
pub(crate) struct AttemptLimits<'a> {
    /// The clock that the limits refer to.
    pub(crate) clock: &'a dyn Clock,
    /// For the whole attempt.
    pub(crate) timeout: Option<Duration>,
    /// For cleaning up after a stop request.
    pub(crate) cancel_grace: Duration,
}

/// Creates an attempt and polls it once, in the caller's task. Returns the attempt if it is
/// pending. No wake-up is lost before its next poll, because a future registers its latest waker at
/// every poll.
pub(crate) fn first_poll(make: impl FnOnce() -> AttemptFuture) -> Result<Outcome, AttemptFuture> {
    let mut attempt = match catch_unwind(AssertUnwindSafe(make)) {
        Ok(attempt) => attempt,
        Err(panic) => return Ok(panic_outcome(&*panic)),
    };
    let mut context = Context::from_waker(Waker::noop());
    // Jobs that share a task must not share its budget: the last ones would be pending without
    // cause.
    let mut first = tokio::task::unconstrained(CatchPanic(&mut attempt));
    match Pin::new(&mut first).poll(&mut context) {
        Poll::Pending => Err(attempt),
        Poll::Ready(outcome) => {
            drop_attempt(attempt);
            Ok(outcome)
        }
    }
}

/// Polls an attempt until it ends.
pub(crate) async fn run_to_end(
    mut attempt: AttemptFuture,
    job: &ClaimedJob,
    limits: AttemptLimits<'_>,
) -> Outcome {
    let timeout = async {
        match limits.timeout {
            Some(timeout) => limits.clock.sleep(timeout).await,
            None => pending().await,
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = CatchPanic(&mut attempt) => match job.stop.reason() {
            // The handler noticed the request and ended by itself.
            Some(reason) => stop_outcome(reason, Some(outcome)),
            None => outcome,
        },
        reason = job.stop.wait() => match job.stop.is_settling() {
            // The settlement is being committed; the attempt ends by itself.
            true => CatchPanic(&mut attempt).await,
            false => stop_with_grace(&mut attempt, job, reason, limits.cancel_grace).await,
        },
        () = timeout => match job.stop.is_settling() {
            true => CatchPanic(&mut attempt).await,
            false => timed_out(limits.timeout),
        },
        heartbeat_timeout = heartbeat_timeout(job, limits.clock) => match job.stop.is_settling() {
            true => CatchPanic(&mut attempt).await,
            false => heartbeat_timed_out(heartbeat_timeout),
        },
    };
    drop_attempt(attempt);
    outcome
}

/// Completes when the attempt has sent no heartbeat for as long as its job allows.
async fn heartbeat_timeout(job: &ClaimedJob, clock: &dyn Clock) -> Duration {
    let Some(timeout) = job.envelope.heartbeat() else { return pending().await };
    let started_at = clock.now();
    loop {
        let last = Timestamp(job.last_heartbeat_ms.load(Ordering::Relaxed)).max(started_at);
        let left = clock.now().until(last.after(timeout));
        if left.is_zero() {
            return timeout;
        }
        clock.sleep(left).await;
    }
}

/// Stops an attempt. A handler that never checked for a stop request is dropped without a grace
/// period.
async fn stop_with_grace(
    attempt: &mut AttemptFuture,
    job: &ClaimedJob,
    reason: StopReason,
    grace: Duration,
) -> Outcome {
    let mut outcome = None;
    if job.stop.is_watched() {
        outcome = tokio::time::timeout(grace, CatchPanic(attempt)).await.ok();
    }
    stop_outcome(job.stop.reason().unwrap_or(reason), outcome)
}

/// The outcome of an attempt that was asked to stop. A success counts nevertheless.
pub(crate) fn stop_outcome(reason: StopReason, outcome: Option<Outcome>) -> Outcome {
    match (reason, outcome) {
        (_, Some(done)) if done.is_success() => done,
        (StopReason::Cancelled, _) => Outcome::Cancelled,
        // An error at this point is most likely caused by the stop itself.
        (_, None | Some(Outcome::Retry { .. } | Outcome::TimedOut { .. })) => Outcome::HandedBack,
        (_, Some(outcome)) => outcome,
    }
}

/// Polls an attempt and converts a panic into an outcome.
struct CatchPanic<'a>(&'a mut AttemptFuture);

impl Future for CatchPanic<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(panic_outcome(&*panic)),
        }
    }
}

/// Drops an attempt. A panic in a destructor of the user's types must not affect other jobs.
fn drop_attempt(attempt: AttemptFuture) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(attempt)));
}

fn panic_outcome(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let error = format!("the handler panicked: {}", text.unwrap_or("(no message)"));
    Outcome::Retry { error, after: None }
}

fn heartbeat_timed_out(timeout: Duration) -> Outcome {
    let error = format!("the handler sent no heartbeat for {timeout:?}");
    Outcome::TimedOut { what: Timeout::Heartbeat, error }
}

fn timed_out(timeout: Option<Duration>) -> Outcome {
    let error = format!("the handler did not end within {:?}", timeout.unwrap_or_default());
    Outcome::TimedOut { what: Timeout::StartToClose, error }
}

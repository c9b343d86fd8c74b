//! One attempt: poll it, catch its panic, watch its time, and stop it when it has to stop.

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
use crate::handler::AttemptResult;
use crate::leases::{ClaimedJob, StopReason};

/// How long an attempt that is under way may still take.
pub(crate) struct AttemptLimits<'a> {
    /// Whose time counts.
    pub(crate) clock: &'a dyn Clock,
    /// For the whole attempt.
    pub(crate) timeout: Option<Duration>,
    /// To wind up once it was told to stop.
    pub(crate) cancel_grace: Duration,
}

/// Makes an attempt and polls it for the first time, in whatever task; gives it back if it is not ready.
/// Whoever polls it next gets the wake-ups: until then nothing is lost, because a future registers its latest
/// waker at every poll.
pub(crate) fn first_poll(make: impl FnOnce() -> AttemptFuture) -> Result<AttemptResult, AttemptFuture> {
    let mut attempt = match catch_unwind(AssertUnwindSafe(make)) {
        Ok(attempt) => attempt,
        Err(panic) => return Ok(panic_outcome(&*panic).into()),
    };
    let mut context = Context::from_waker(Waker::noop());
    // Jobs that share a task must not share its budget, or the last ones would be pending for nothing.
    let mut first = tokio::task::unconstrained(CatchPanic(&mut attempt));
    match Pin::new(&mut first).poll(&mut context) {
        Poll::Pending => Err(attempt),
        Poll::Ready(outcome) => {
            drop_attempt(attempt);
            Ok(outcome)
        }
    }
}

/// Drives an attempt to its end.
pub(crate) async fn run_to_end(
    mut attempt: AttemptFuture,
    job: &ClaimedJob,
    limits: AttemptLimits<'_>,
) -> AttemptResult {
    let timeout = async {
        match limits.timeout {
            Some(timeout) => limits.clock.sleep(timeout).await,
            None => pending().await,
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = CatchPanic(&mut attempt) => match job.stop.reason() {
            // It heard of it first and wound up by itself.
            Some(reason) => stop_result(reason, Some(outcome)),
            None => outcome,
        },
        reason = job.stop.wait() => match job.stop.is_settling() {
            // Its work is done and on its way to the disk; it ends by itself.
            true => CatchPanic(&mut attempt).await,
            false => stop_with_grace(&mut attempt, job, reason, limits.cancel_grace).await,
        },
        () = timeout => match job.stop.is_settling() {
            true => CatchPanic(&mut attempt).await,
            false => timed_out(limits.timeout).into(),
        },
        heartbeat_timeout = heartbeat_timeout(job, limits.clock) => match job.stop.is_settling() {
            true => CatchPanic(&mut attempt).await,
            false => heartbeat_timed_out(heartbeat_timeout).into(),
        },
    };
    drop_attempt(attempt);
    outcome
}

/// Completes when the attempt has given no sign of life for as long as its job allows.
async fn heartbeat_timeout(job: &ClaimedJob, clock: &dyn Clock) -> Duration {
    let Some(timeout) = job.envelope.heartbeat() else { return pending().await };
    let begun = clock.now();
    loop {
        let last = Timestamp(job.last_heartbeat_ms.load(Ordering::Relaxed)).max(begun);
        let left = clock.now().until(last.after(timeout));
        if left.is_zero() {
            return timeout;
        }
        clock.sleep(left).await;
    }
}

/// Ends an attempt that has to stop. Dropping it is enough for a handler that never asked whether it should.
async fn stop_with_grace(
    attempt: &mut AttemptFuture,
    job: &ClaimedJob,
    reason: StopReason,
    grace: Duration,
) -> AttemptResult {
    let mut result = None;
    if job.stop.is_watched() {
        result = tokio::time::timeout(grace, CatchPanic(attempt)).await.ok();
    }
    stop_result(job.stop.reason().unwrap_or(reason), result)
}

/// What became of a job that was told to stop. What it still managed to finish is finished.
pub(crate) fn stop_result(reason: StopReason, result: Option<AttemptResult>) -> AttemptResult {
    use AttemptResult::Outcome as Unsettled;
    match (reason, result) {
        (_, Some(done @ AttemptResult::Settled(..))) => done,
        (_, Some(Unsettled(done))) if done.is_success() => done.into(),
        (StopReason::Cancelled, _) => Outcome::Cancelled.into(),
        // An error now is most likely the stopping itself, and no fault of the job's.
        (_, None | Some(Unsettled(Outcome::Retry { .. } | Outcome::TimedOut { .. }))) => {
            Outcome::HandedBack.into()
        }
        (_, Some(result)) => result,
    }
}

/// Polls an attempt and turns its panic into an outcome.
struct CatchPanic<'a>(&'a mut AttemptFuture);

impl Future for CatchPanic<'_> {
    type Output = AttemptResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AttemptResult> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(panic_outcome(&*panic).into()),
        }
    }
}

/// Drops an attempt. What the user's types do when they are dropped must not take other jobs along.
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
    let error = format!("the handler gave no sign of life for {timeout:?}");
    Outcome::TimedOut { what: Timeout::Heartbeat, error }
}

fn timed_out(timeout: Option<Duration>) -> Outcome {
    let error = format!("the handler did not end within {:?}", timeout.unwrap_or_default());
    Outcome::TimedOut { what: Timeout::StartToClose, error }
}

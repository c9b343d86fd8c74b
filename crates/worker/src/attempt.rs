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

use crate::assignment::{Assignment, Why};
use crate::handler::Attempt;
use crate::upshot::Upshot;

/// How long an attempt that is under way may still take.
pub(crate) struct Allowance<'a> {
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
pub(crate) fn first_poll(make: impl FnOnce() -> Attempt) -> Result<Upshot, Attempt> {
    let mut attempt = match catch_unwind(AssertUnwindSafe(make)) {
        Ok(attempt) => attempt,
        Err(panic) => return Ok(panicked(&*panic).into()),
    };
    let mut context = Context::from_waker(Waker::noop());
    // Jobs that share a task must not share its budget, or the last ones would be pending for nothing.
    let mut first = tokio::task::unconstrained(Guarded(&mut attempt));
    match Pin::new(&mut first).poll(&mut context) {
        Poll::Pending => Err(attempt),
        Poll::Ready(outcome) => {
            discard(attempt);
            Ok(outcome)
        }
    }
}

/// Drives an attempt to its end.
pub(crate) async fn attend(mut attempt: Attempt, job: &Assignment, allowance: Allowance<'_>) -> Upshot {
    let timeout = async {
        match allowance.timeout {
            Some(timeout) => allowance.clock.sleep(timeout).await,
            None => pending().await,
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = Guarded(&mut attempt) => match job.stop.why() {
            // It heard of it first and wound up by itself.
            Some(why) => stopped(why, Some(outcome)),
            None => outcome,
        },
        why = job.stop.requested() => match job.stop.is_ending() {
            // Its work is done and on its way to the disk; it ends by itself.
            true => Guarded(&mut attempt).await,
            false => wind_up(&mut attempt, job, why, allowance.cancel_grace).await,
        },
        () = timeout => match job.stop.is_ending() {
            true => Guarded(&mut attempt).await,
            false => timed_out(allowance.timeout).into(),
        },
        silence = silence(job, allowance.clock) => match job.stop.is_ending() {
            true => Guarded(&mut attempt).await,
            false => fell_silent(silence).into(),
        },
    };
    discard(attempt);
    outcome
}

/// Completes when the attempt has given no sign of life for as long as its job allows.
async fn silence(job: &Assignment, clock: &dyn Clock) -> Duration {
    let Some(allowed) = job.envelope.heartbeat() else { return pending().await };
    let begun = clock.now();
    loop {
        let last = Timestamp(job.pulse.load(Ordering::Relaxed)).max(begun);
        let left = clock.now().until(last.after(allowed));
        if left.is_zero() {
            return allowed;
        }
        clock.sleep(left).await;
    }
}

/// Ends an attempt that has to stop. Dropping it is enough for a handler that never asked whether it should.
async fn wind_up(attempt: &mut Attempt, job: &Assignment, why: Why, grace: Duration) -> Upshot {
    let mut last_words = None;
    if job.stop.is_watched() {
        last_words = tokio::time::timeout(grace, Guarded(attempt)).await.ok();
    }
    stopped(job.stop.why().unwrap_or(why), last_words)
}

/// What became of a job that was told to stop. What it still managed to finish is finished.
pub(crate) fn stopped(why: Why, last_words: Option<Upshot>) -> Upshot {
    use Upshot::Outcome as Said;
    match (why, last_words) {
        (_, Some(done @ Upshot::Settled(..))) => done,
        (_, Some(Said(done))) if done.is_success() => done.into(),
        (Why::Cancelled, _) => Outcome::Cancelled.into(),
        // An error now is most likely the stopping itself, and no fault of the job's.
        (_, None | Some(Said(Outcome::Retry { .. } | Outcome::TimedOut { .. }))) => {
            Outcome::HandedBack.into()
        }
        (_, Some(upshot)) => upshot,
    }
}

/// Polls an attempt and turns its panic into an outcome.
struct Guarded<'a>(&'a mut Attempt);

impl Future for Guarded<'_> {
    type Output = Upshot;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Upshot> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(panicked(&*panic).into()),
        }
    }
}

/// Drops an attempt. What the user's types do when they are dropped must not take other jobs along.
fn discard(attempt: Attempt) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(attempt)));
}

fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let error = format!("the handler panicked: {}", text.unwrap_or("(no message)"));
    Outcome::Retry { error, after: None }
}

fn fell_silent(allowed: Duration) -> Outcome {
    let error = format!("the handler gave no sign of life for {allowed:?}");
    Outcome::TimedOut { what: Timeout::Heartbeat, error }
}

fn timed_out(timeout: Option<Duration>) -> Outcome {
    let error = format!("the handler did not end within {:?}", timeout.unwrap_or_default());
    Outcome::TimedOut { what: Timeout::StartToClose, error }
}

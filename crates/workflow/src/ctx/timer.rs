//! Durable timers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidemill_core::Timestamp;
use tidemill_core::workflow::Command;

use super::Ctx;
use super::future::CtxFuture;
use crate::error::RunCancelled;
use crate::state::{WaitResult, WaitTarget};

impl Ctx {
    /// Waits for this duration, which may be years. The store's clock counts.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep { inner: CtxFuture::new(self), due: Some(SleepTime::In(duration)) }
    }

    /// Waits until this time.
    pub fn sleep_until(&self, time: Timestamp) -> Sleep {
        Sleep { inner: CtxFuture::new(self), due: Some(SleepTime::At(time)) }
    }

    /// The time of the event that is being consumed.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.shared.lock().now)
    }
}

/// The future of a timer.
#[must_use = "a timer starts when it is awaited"]
pub struct Sleep {
    inner: CtxFuture,
    /// Taken when the timer is started.
    due: Option<SleepTime>,
}

#[derive(Clone, Copy)]
enum SleepTime {
    In(Duration),
    At(Timestamp),
}

impl Future for Sleep {
    type Output = Result<(), RunCancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(due) = self.due.take() {
            self.inner.issue(WaitTarget::Timer, |state, seq| {
                let due = match due {
                    SleepTime::In(duration) => Timestamp(state.now).after(duration),
                    SleepTime::At(time) => time,
                };
                Command::StartTimer { seq, due_ms: due.0 }
            })?;
        }
        Poll::Ready(match ready!(self.inner.poll(cx)) {
            WaitResult::Cancelled => Err(RunCancelled),
            _ => Ok(()),
        })
    }
}

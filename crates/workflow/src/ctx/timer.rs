//! Timers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidemill_core::Timestamp;
use tidemill_core::workflow::Command;

use super::Ctx;
use super::leaf::Leaf;
use crate::error::Cancelled;
use crate::state::{On, Outcome};

impl Ctx {
    /// Waits this long, be it years. The clock is the store's.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep { leaf: Leaf::of(self), due: Some(Due::In(duration)) }
    }

    /// Waits until this time.
    pub fn sleep_until(&self, time: Timestamp) -> Sleep {
        Sleep { leaf: Leaf::of(self), due: Some(Due::At(time)) }
    }

    /// The time of the event that brought the code here.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.shared.lock().now)
    }
}

/// A timer that has not fired yet.
#[must_use = "a timer starts when it is awaited"]
pub struct Sleep {
    leaf: Leaf,
    /// Until it is started.
    due: Option<Due>,
}

#[derive(Clone, Copy)]
enum Due {
    In(Duration),
    At(Timestamp),
}

impl Future for Sleep {
    type Output = Result<(), Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(due) = self.due.take() {
            self.leaf.ask(On::Timer, |state, seq| {
                let due = match due {
                    Due::In(duration) => Timestamp(state.now).after(duration),
                    Due::At(time) => time,
                };
                Command::StartTimer { seq, due_ms: due.0 }
            })?;
        }
        Poll::Ready(match ready!(self.leaf.poll(cx)) {
            Outcome::Cancelled => Err(Cancelled),
            _ => Ok(()),
        })
    }
}

//! Waiting for a cancel request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Ctx;
use super::future::CtxFuture;
use crate::state::WaitTarget;

impl Ctx {
    /// Completes when the run is asked to cancel. While any code of the run awaits this, a cancel
    /// request ends no other await: that code decides what happens.
    pub fn cancelled(&self) -> CancelledFuture {
        CancelledFuture { inner: CtxFuture::new(self), waiting: false }
    }

    /// Whether the run was asked to cancel.
    pub fn is_cancelled(&self) -> bool {
        self.shared.lock().cancel_requested
    }
}

/// Completes when the run is asked to cancel.
#[must_use = "futures do nothing unless they are awaited"]
pub struct CancelledFuture {
    inner: CtxFuture,
    waiting: bool,
}

impl Future for CancelledFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waiting {
            self.waiting = true;
            let found =
                self.inner.wait_for(WaitTarget::Cancel, |state, _| state.cancel_requested.then_some(()));
            if let Ok(Some(())) = found {
                return Poll::Ready(());
            }
        }
        self.inner.poll(cx).map(drop)
    }
}

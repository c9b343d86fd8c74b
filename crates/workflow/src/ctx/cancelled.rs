//! Hearing that the run is to cancel.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Ctx;
use super::leaf::Leaf;
use crate::state::On;

impl Ctx {
    /// Completes when the run is asked to cancel. While anything in the run waits for this, a cancel request ends
    /// no other await: the code that listens decides what happens.
    pub fn cancelled(&self) -> CancelledFuture {
        CancelledFuture { leaf: Leaf::of(self), listening: false }
    }

    /// Whether the run was asked to cancel.
    pub fn is_cancelled(&self) -> bool {
        self.shared.lock().cancelling
    }
}

/// Completes when the run is asked to cancel.
#[must_use = "futures do nothing unless they are awaited"]
pub struct CancelledFuture {
    leaf: Leaf,
    listening: bool,
}

impl Future for CancelledFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.listening {
            self.listening = true;
            let found = self.leaf.listen(On::Cancel, |state, _| state.cancelling.then_some(()));
            if let Ok(Some(())) = found {
                return Poll::Ready(());
            }
        }
        self.leaf.poll(cx).map(drop)
    }
}

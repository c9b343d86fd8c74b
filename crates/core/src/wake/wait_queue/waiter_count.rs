//! The number of waiting claims across all queues, with notification of one observer.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use futures_util::task::AtomicWaker;

/// Counts waiting claims and wakes one observer when the count becomes zero or non-zero.
#[derive(Debug, Default)]
pub(super) struct WaiterCount {
    waiting: AtomicUsize,
    observer: AtomicWaker,
}

impl WaiterCount {
    pub(super) fn join(&self) {
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            self.observer.wake();
        }
    }

    pub(super) fn leave(&self) {
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.observer.wake();
        }
    }

    /// Completes when `condition` holds for the count. For one caller at a time.
    pub(super) async fn until(&self, condition: impl Fn(usize) -> bool) {
        poll_fn(|cx| {
            self.observer.register(cx.waker());
            if condition(self.waiting.load(Ordering::SeqCst)) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

//! How many wait, of all queues together, for the one who has to know whether anybody does.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use futures_util::task::AtomicWaker;

/// Everybody who waits.
#[derive(Debug, Default)]
pub(super) struct WaiterCount {
    waiting: AtomicUsize,
    watcher: AtomicWaker,
}

impl WaiterCount {
    pub(super) fn join(&self) {
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            self.watcher.wake();
        }
    }

    pub(super) fn leave(&self) {
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.watcher.wake();
        }
    }

    /// Completes when `so_many` holds of how many there are.
    pub(super) async fn until(&self, so_many: impl Fn(usize) -> bool) {
        poll_fn(|cx| {
            self.watcher.register(cx.waker());
            if so_many(self.waiting.load(Ordering::SeqCst)) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

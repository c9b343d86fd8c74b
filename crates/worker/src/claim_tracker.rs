//! The state of a queue's claims, which lets the drainer interrupt a waiting claim.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether a claim is pending. The producer of a queue has at most one.
#[derive(Debug)]
pub(crate) struct ClaimTracker {
    is_pending: AtomicBool,
    /// The number of claims that have ended and whose jobs are registered in the lease table.
    ended: watch::Sender<u64>,
    /// Changes when waiting claims should return.
    interrupted: watch::Sender<()>,
}

impl Default for ClaimTracker {
    fn default() -> Self {
        let (ended, interrupted) = (watch::Sender::new(0), watch::Sender::new(()));
        Self { is_pending: AtomicBool::new(false), ended, interrupted }
    }
}

impl ClaimTracker {
    /// Records the start of a claim. The claim should return when the receiver changes.
    pub(crate) fn begin(&self) -> watch::Receiver<()> {
        self.is_pending.store(true, Ordering::SeqCst);
        self.interrupted.subscribe()
    }

    /// Records the end of the claim. Its jobs must be in the lease table.
    pub(crate) fn end(&self) {
        self.is_pending.store(false, Ordering::SeqCst);
        self.ended.send_modify(|ended| *ended += 1);
    }

    /// Interrupts the pending claim, if there is one, and completes when it has ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn interrupt(&self) {
        let mut ended = self.ended.subscribe();
        let before = *ended.borrow_and_update();
        if self.is_pending.load(Ordering::SeqCst) {
            self.interrupted.send_replace(());
            // `self` owns the sender, so this cannot fail.
            let _ = ended.wait_for(|ended| *ended > before).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_claim_is_waited_for_and_the_next_is_not() {
        let tracker = ClaimTracker::default();
        assert!(tracker.interrupt().now_or_never().is_some(), "none is pending");
        let mut interrupted = tracker.begin();
        let mut waiting = Box::pin(tracker.interrupt());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(interrupted.changed().now_or_never().is_some());
        tracker.end();
        let next = tracker.begin();
        assert!(waiting.now_or_never().is_some());
        assert!(!next.has_changed().unwrap(), "it begins after the interruption");
    }
}

//! The claims of one queue, as the part sees them that drains the worker: which are under way, and how they are ended early.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether a claim is under way. A queue's producer has one at a time.
#[derive(Debug)]
pub(crate) struct ClaimTracker {
    is_pending: AtomicBool,
    /// How many claims have ended, their jobs taken in.
    ended: watch::Sender<u64>,
    /// Changes when claims that wait for jobs should end.
    interrupted: watch::Sender<()>,
}

impl Default for ClaimTracker {
    fn default() -> Self {
        let (ended, interrupted) = (watch::Sender::new(0), watch::Sender::new(()));
        Self { is_pending: AtomicBool::new(false), ended, interrupted }
    }
}

impl ClaimTracker {
    /// A claim begins. It should end when what is returned changes.
    pub(crate) fn begin(&self) -> watch::Receiver<()> {
        self.is_pending.store(true, Ordering::SeqCst);
        self.interrupted.subscribe()
    }

    /// The claim has ended, and what it brought is among the worker's leases.
    pub(crate) fn end(&self) {
        self.is_pending.store(false, Ordering::SeqCst);
        self.ended.send_modify(|ended| *ended += 1);
    }

    /// Completes when the claim that is under way has ended, and asks it to.
    ///
    /// Cancel safe.
    pub(crate) async fn interrupt(&self) {
        let mut ended = self.ended.subscribe();
        let before = *ended.borrow_and_update();
        if self.is_pending.load(Ordering::SeqCst) {
            self.interrupted.send_replace(());
            // The sender is this very value.
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
        assert!(tracker.interrupt().now_or_never().is_some(), "none is under way");
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

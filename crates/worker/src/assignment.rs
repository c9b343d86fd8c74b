//! A job in this worker's hands, and the one way to ask its handler to stop.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tidemill_core::{Envelope, Lease};
use tokio::sync::Notify;

/// A claimed job, from the claim until its settlement has stuck.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The right to run it.
    pub(crate) lease: Lease,
    /// What to run.
    pub(crate) envelope: Envelope,
    /// Which of the worker's queues it came from.
    pub(crate) lane: usize,
    /// Its place among the leases this worker holds.
    pub(crate) place: usize,
    /// Whether it should stop.
    pub(crate) stop: Stop,
}

/// Why a handler should stop. The later ones override the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// The worker is leaving: the job goes back.
    Leaving = 1,
    /// Somebody cancelled the job.
    Cancelled = 2,
    /// Word has come that the lease was taken away. A hint, so the end is settled as ever: if the lease is gone
    /// that has no effect, and if not the job goes back.
    Disowned = 3,
    /// The lease is somebody else's now: whatever the handler does no longer counts.
    Lost = 4,
}

/// Tells a running handler to stop. Built into the assignment, so that a job costs no allocation for it.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    why: AtomicU8,
    watched: AtomicBool,
    /// Its end is being committed: too late to stop it, and an end is not a loss.
    ending: AtomicBool,
    changed: Notify,
}

impl Stop {
    pub(crate) fn request(&self, why: Why) {
        if self.is_ending() {
            return;
        }
        self.why.fetch_max(why as u8, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    pub(crate) fn why(&self) -> Option<Why> {
        match self.why.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Why::Leaving),
            2 => Some(Why::Cancelled),
            3 => Some(Why::Disowned),
            _ => Some(Why::Lost),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.why() == Some(Why::Lost)
    }

    /// From now on nothing stops it: the handler's transaction is being committed with the job's end. `false` if it
    /// was asked to stop before.
    pub(crate) fn begin_to_end(&self) -> bool {
        self.ending.store(true, Ordering::SeqCst);
        self.why().is_none_or(|why| why == Why::Leaving)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Notes that the handler looks out for being stopped, and so deserves time to wind up.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(crate) async fn requested(&self) -> Why {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the look, so that a request between the two is not missed.
            changed.as_mut().enable();
            if let Some(why) = self.why() {
                return why;
            }
            changed.await;
        }
    }
}

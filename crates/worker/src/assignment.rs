//! A job in this worker's hands, and the one way to ask its handler to stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tidemill_core::store::Verdict;
use tidemill_core::{Envelope, Lease};
use tokio::sync::Notify;

/// A claimed job, from the claim until its settlement has stuck.
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
    /// When its handler last gave a sign of life, in the store's milliseconds; 0 if it has not yet.
    pub(crate) pulse: AtomicI64,
    /// Who wants to know whether its settlement was accepted. Dropped unasked if that never comes out.
    pub(crate) curious: Mutex<Option<Curious>>,
}

/// Is told what a store said to a settlement.
pub(crate) type Curious = Box<dyn FnOnce(Verdict) + Send>;

impl Assignment {
    pub(crate) fn new(lease: Lease, envelope: Envelope, lane: usize, place: usize) -> Self {
        let (pulse, curious) = (AtomicI64::new(0), Mutex::default());
        Self { lease, envelope, lane, place, stop: Stop::default(), pulse, curious }
    }

    /// Whoever wanted to know is told.
    pub(crate) fn settled(&self, verdict: Verdict) {
        let curious = self.curious.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(curious) = curious {
            curious(verdict);
        }
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Why a handler should stop. The later ones override the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// The worker is leaving: the job goes back.
    Leaving = 1,
    /// Somebody cancelled the job.
    Cancelled = 2,
    /// The lease is somebody else's now: whatever the handler does no longer counts.
    Lost = 3,
}

/// Tells a running handler to stop. Built into the assignment, so that a job costs no allocation for it.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    why: AtomicU8,
    watched: AtomicBool,
    /// Its end is being committed or settled: too late to stop it, and an end is not a loss.
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

    /// Its handler has ended: there is nothing left to stop.
    pub(crate) fn ended(&self) {
        self.ending.store(true, Ordering::SeqCst);
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

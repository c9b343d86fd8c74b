//! Notifications inside the commit that ends a run.
//!
//! They save the round trip of a separate wake-up. But PostgreSQL serializes commits that notify,
//! each of which waits for the disk. So a process sends at most one at a time, of few ends, and not
//! too often. All other wake-ups are sent by the notify task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many ends one commit notifies of. A larger batch is under load and can use the notify task.
const MAX_NOTIFIED_ENDS: usize = 4;

/// The pause after each such commit, as after every batch of the notify task.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The pause after a failure: a wake-up that cannot be sent must not block commits.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// Decides which commits notify of the ends in them.
#[derive(Debug)]
pub(crate) struct CommitNotify {
    channel: String,
    in_use: AtomicBool,
    /// When the next permit may be given.
    paused_until: Mutex<Option<Instant>>,
}

/// The permit to notify inside a commit, until it is dropped.
pub(crate) struct CommitNotifyPermit<'a> {
    owner: &'a CommitNotify,
    /// The pause after it.
    pause: Duration,
}

impl CommitNotify {
    pub(crate) fn new(channel: String) -> Self {
        Self { channel, in_use: AtomicBool::new(false), paused_until: Mutex::default() }
    }

    /// A permit for a commit with this many ends, if no other commit has it.
    pub(crate) fn try_acquire(&self, ends: usize) -> Option<CommitNotifyPermit<'_>> {
        let is_paused = self.paused_until().is_some_and(|until| Instant::now() < until);
        if !(1..=MAX_NOTIFIED_ENDS).contains(&ends) || is_paused {
            return None;
        }
        let is_free = !self.in_use.swap(true, Ordering::Acquire);
        is_free.then(|| CommitNotifyPermit { owner: self, pause: MIN_INTERVAL })
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommitNotifyPermit<'_> {
    pub(crate) fn channel(&self) -> &str {
        &self.owner.channel
    }

    /// The commit failed, maybe because of its notification.
    pub(crate) fn failed(mut self) {
        self.pause = FAILURE_PAUSE;
    }
}

impl Drop for CommitNotifyPermit<'_> {
    fn drop(&mut self) {
        *self.owner.paused_until() = Instant::now().checked_add(self.pause);
        self.owner.in_use.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_commit_at_a_time_notifies_of_few_ends_and_then_pauses() {
        let notify = CommitNotify::new("wake".into());
        assert!(notify.try_acquire(0).is_none() && notify.try_acquire(MAX_NOTIFIED_ENDS + 1).is_none());
        let permit = notify.try_acquire(1).unwrap();
        assert!(notify.try_acquire(1).is_none(), "another commit has it");
        drop(permit);
        let pause = notify.paused_until().take().unwrap();
        assert_eq!(notify.try_acquire(MAX_NOTIFIED_ENDS).unwrap().channel(), "wake");
        assert!(notify.paused_until().take().unwrap() >= pause);
    }

    #[test]
    fn after_a_failure_it_pauses() {
        let notify = CommitNotify::new("wake".into());
        notify.try_acquire(1).unwrap().failed();
        assert!(notify.try_acquire(1).is_none());
    }
}

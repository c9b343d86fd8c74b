//! Telling of an end inside the commit that ends it.
//!
//! It saves the trip that a wake-up costs otherwise. But PostgreSQL lets commits that notify take turns, each waiting for the
//! other's disk, so one in a process is allowed at a time, of few ends and not too often: whatever else there is to tell goes
//! the debounced way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many ends one commit tells of itself. One that ends more is one of many, and can wait for a trip.
const FEW: usize = 4;

/// The rest after each, as after every errand of the herald.
const REST: Duration = Duration::from_millis(1);

/// The rest after a failure: a wake-up that cannot be told must not keep anything from being written down.
const SILENCE: Duration = Duration::from_secs(10);

/// Says who may tell of ends by itself.
#[derive(Debug)]
pub(crate) struct Voice {
    channel: String,
    lent: AtomicBool,
    /// When it can be lent again.
    rests: Mutex<Option<Instant>>,
}

/// The right to tell of ends, until it is dropped.
pub(crate) struct Lent<'a> {
    voice: &'a Voice,
    /// The rest after it.
    rest: Duration,
}

impl Voice {
    pub(crate) fn new(channel: String) -> Self {
        Self { channel, lent: AtomicBool::new(false), rests: Mutex::default() }
    }

    /// Lends it to a commit that has this many ends to tell of, if nobody has it.
    pub(crate) fn lend(&self, ends: usize) -> Option<Lent<'_>> {
        if !(1..=FEW).contains(&ends) || self.rests().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let is_free = !self.lent.swap(true, Ordering::Acquire);
        is_free.then(|| Lent { voice: self, rest: REST })
    }

    fn rests(&self) -> MutexGuard<'_, Option<Instant>> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent<'_> {
    pub(crate) fn channel(&self) -> &str {
        &self.voice.channel
    }

    /// The commit has failed, maybe for what it had to tell.
    pub(crate) fn failed(mut self) {
        self.rest = SILENCE;
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.voice.rests() = Instant::now().checked_add(self.rest);
        self.voice.lent.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_commit_at_a_time_tells_of_few_ends_and_then_rests() {
        let voice = Voice::new("wake".into());
        assert!(voice.lend(0).is_none() && voice.lend(FEW + 1).is_none());
        let lent = voice.lend(1).unwrap();
        assert!(voice.lend(1).is_none(), "somebody has it");
        drop(lent);
        let rest = voice.rests().take().unwrap();
        assert_eq!(voice.lend(FEW).unwrap().channel(), "wake");
        assert!(voice.rests().take().unwrap() >= rest);
    }

    #[test]
    fn after_a_failure_it_is_silent() {
        let voice = Voice::new("wake".into());
        voice.lend(1).unwrap().failed();
        assert!(voice.lend(1).is_none());
    }
}

//! How the beats of agents and the leases of those who hold browsers hang together.
//!
//! A store that is away for a moment must cost nobody a browser, and give no browser to two. An agent whose beat fails, or comes
//! late, knows that leases may have run out which nobody could extend, and closes nothing for a while; and a store
//! that has not heard a member for longer than its beat is fresh gives it to nobody before holders have spoken. Of a shorter outage
//! neither knows: whoever is not told of a session then takes it for over. So a lease must outlast any outage that may be missed,
//! counted from the last time it was extended before to the first time after.

use std::time::Duration;

/// How often an agent beats.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// A beat may be this late on a busy machine. One that is later found a store that was away, or a machine that stood still.
pub(crate) const LATE: Duration = Duration::from_secs(3);

/// How long after its last beat a member is taken for dead.
pub(crate) const FRESH: Duration = Duration::from_secs(10);

/// The longest between two times that a holder extends its leases. A store that has lost its data, or was away, gives those who
/// hold sessions a few seconds to say so, however long leases are.
const EXTEND: Duration = Duration::from_secs(3);

/// How long a holder waits for the store to hear what it holds. One that hangs is away; the question is asked again.
pub(crate) const HEARD: Duration = Duration::from_secs(5);

/// How long a member that the store had forgotten, or had not heard for too long, is given to nobody, so that holders can say what
/// they hold: also those who are waiting for an answer that never comes, and for the next one.
pub(crate) const GRACE: Duration = Duration::from_secs(15);

/// How long an agent closes nothing after a store that lost its data, or was away: until then nobody knows who has sessions. Longer
/// than the store's own grace, which begins with the beat, because a browser that is closed cannot be had back.
pub(crate) const DOUBT: Duration = Duration::from_secs(30);

/// The longest until a holder tries again what the store did not hear.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// The shortest lease.
pub(crate) const LEAST: Duration = Duration::from_secs(14);

const _: () = assert!(
    BEAT.as_millis() + LATE.as_millis() <= FRESH.as_millis(),
    "a beat that is late must not make a member dead"
);

const _: () = assert!(
    FRESH.as_millis() + EXTEND.as_millis() + AGAIN.as_millis() <= LEAST.as_millis(),
    "a lease must outlast every outage that may be missed"
);

const _: () = assert!(
    EXTEND.as_millis() + 2 * (HEARD.as_millis() + AGAIN.as_millis()) <= GRACE.as_millis(),
    "holders must have spoken before anything is given away"
);

const _: () = assert!(
    GRACE.as_millis() + BEAT.as_millis() <= DOUBT.as_millis(),
    "an agent must not close what the store still waits to hear of"
);

/// How often a lease is extended: two of three times may fail before it is over.
pub(crate) fn period(lease: Duration) -> Duration {
    (lease / 3).min(EXTEND)
}

/// A lease that does not outlast every outage that may be missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a lease of {0:?} is too short: a store that is away for a moment would cost clients their browsers; \
     the least is {LEAST:?}"
)]
pub struct LeaseTooShort(pub Duration);

impl LeaseTooShort {
    /// Whether a lease is long enough.
    pub fn check(lease: Duration) -> Result<(), Self> {
        if lease >= LEAST { Ok(()) } else { Err(Self(lease)) }
    }
}

/// How long browsers are leased.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) time: Duration,
    /// Whether it may be shorter than the least, because nobody minds.
    pub(crate) brief: bool,
}

impl Default for Lease {
    fn default() -> Self {
        Self { time: Duration::from_secs(15), brief: false }
    }
}

impl Lease {
    /// Whether everybody keeps a browser under it.
    pub(crate) fn check(self) -> Result<(), LeaseTooShort> {
        if self.brief { Ok(()) } else { LeaseTooShort::check(self.time) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lease_that_is_taken_outlasts_an_outage_that_nobody_sees() {
        for millis in (0..120_000).step_by(100) {
            let lease = Lease { time: Duration::from_millis(millis), brief: false };
            let left = lease.time.saturating_sub(period(lease.time));
            if lease.check().is_ok() {
                assert!(left >= FRESH + AGAIN, "{lease:?}");
            } else {
                assert!(left < FRESH + AGAIN, "{lease:?} is refused without need");
            }
        }
        Lease::default().check().unwrap();
    }
}

//! The timing of agent heartbeats and browser leases, and how they depend on each other.
//!
//! A short outage of the store must neither cost a client its browser nor give one browser to two
//! clients. An agent whose heartbeat fails or is late knows that leases may have expired which
//! nobody could renew, so it closes nothing for a while. A store that has not received a worker's
//! heartbeat for longer than its TTL leases the worker to nobody until holders have attached again.
//!
//! Neither notices a shorter outage, and would take an expired session for an ended one. So a lease
//! must outlast every unnoticed outage, from its last renewal before to its first renewal after.

use std::time::Duration;

/// How often an agent sends a heartbeat.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// How late a heartbeat may be on a busy machine. A later one means that the store was unavailable
/// or the machine was suspended.
pub(crate) const MAX_HEARTBEAT_DELAY: Duration = Duration::from_secs(3);

/// How long after its last heartbeat a worker counts as dead.
pub(crate) const WORKER_TTL: Duration = Duration::from_secs(10);

/// The longest interval between renewals of a lease. After an outage or a loss of data, the store
/// waits a few seconds for holders to attach, however long leases are.
const MAX_RENEWAL_INTERVAL: Duration = Duration::from_secs(3);

/// How long a renewal may take. A store that hangs counts as unavailable, and the renewal is
/// repeated.
pub(crate) const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a worker that the store had lost is leased to nobody, so that holders can attach again.
/// Long enough for a renewal that hangs and its retry.
pub(crate) const RECOVERY_GRACE: Duration = Duration::from_secs(15);

/// How long an agent closes nothing after a store outage or a loss of data: until then the session
/// counts are uncertain. Longer than the store's own grace period, which begins with the heartbeat,
/// because a closed browser cannot be restored.
pub(crate) const UNCERTAIN_PERIOD: Duration = Duration::from_secs(30);

/// The longest delay before a failed renewal is repeated.
pub(crate) const MAX_RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The shortest lease.
pub(crate) const MIN_LEASE: Duration = Duration::from_secs(14);

const _: () = assert!(
    HEARTBEAT_INTERVAL.as_millis() + MAX_HEARTBEAT_DELAY.as_millis() <= WORKER_TTL.as_millis(),
    "a beat that is late must not make a member dead"
);

const _: () = assert!(
    WORKER_TTL.as_millis() + MAX_RENEWAL_INTERVAL.as_millis() + MAX_RENEWAL_RETRY_DELAY.as_millis()
        <= MIN_LEASE.as_millis(),
    "a lease must outlast every outage that may be missed"
);

const _: () = assert!(
    MAX_RENEWAL_INTERVAL.as_millis()
        + 2 * (RENEWAL_TIMEOUT.as_millis() + MAX_RENEWAL_RETRY_DELAY.as_millis())
        <= RECOVERY_GRACE.as_millis(),
    "holders must have spoken before anything is given away"
);

const _: () = assert!(
    RECOVERY_GRACE.as_millis() + HEARTBEAT_INTERVAL.as_millis() <= UNCERTAIN_PERIOD.as_millis(),
    "an agent must not close what the store still waits to hear of"
);

/// How often a lease is renewed: two of three renewals may fail before it expires.
pub(crate) fn renewal_interval(lease: Duration) -> Duration {
    (lease / 3).min(MAX_RENEWAL_INTERVAL)
}

/// A lease that does not outlast every unnoticed outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a lease of {0:?} is too short: a store that is away for a moment would cost clients their browsers; \
     the least is {MIN_LEASE:?}"
)]
pub struct LeaseTooShort(pub Duration);

impl LeaseTooShort {
    /// Checks that a lease is long enough.
    pub fn check(lease: Duration) -> Result<(), Self> {
        if lease >= MIN_LEASE { Ok(()) } else { Err(Self(lease)) }
    }
}

/// The duration of browser leases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseOptions {
    pub(crate) duration: Duration,
    /// Whether it may be shorter than the minimum, for tests.
    pub(crate) allow_short: bool,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self { duration: Duration::from_secs(15), allow_short: false }
    }
}

impl LeaseOptions {
    /// Checks that it outlasts every unnoticed outage.
    pub(crate) fn check(self) -> Result<(), LeaseTooShort> {
        if self.allow_short { Ok(()) } else { LeaseTooShort::check(self.duration) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lease_that_is_taken_outlasts_an_outage_that_nobody_sees() {
        for millis in (0..120_000).step_by(100) {
            let lease = LeaseOptions { duration: Duration::from_millis(millis), allow_short: false };
            let left = lease.duration.saturating_sub(renewal_interval(lease.duration));
            if lease.check().is_ok() {
                assert!(left >= WORKER_TTL + MAX_RENEWAL_RETRY_DELAY, "{lease:?}");
            } else {
                assert!(left < WORKER_TTL + MAX_RENEWAL_RETRY_DELAY, "{lease:?} is refused without need");
            }
        }
        LeaseOptions::default().check().unwrap();
    }
}

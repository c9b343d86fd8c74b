//! A pool of equal browsers: how to start one, how many to keep, and its failures.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Backoff;
use tokio::time::Instant;
use tracing::{info, warn};

use super::launch::LaunchSpec;
use super::plan::PoolTarget;

/// Delay between attempts to start a browser that does not start: up to 30 seconds.
const START_BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(250),
    max: Duration::from_secs(30),
    jitter: Duration::from_millis(250),
};

/// A browser that dies earlier than this may never have worked.
const MIN_STABLE_UPTIME: Duration = Duration::from_secs(10);

/// A pool of equal browsers, with its start state.
#[derive(Debug)]
pub(super) struct WorkerPool {
    pub(super) launch: Arc<LaunchSpec>,
    pub(super) target: PoolTarget,
    /// How many are starting.
    pub(super) starting: usize,
    /// How many ended unexpectedly.
    pub(super) crashes: u64,
    /// How many failed in a row.
    failures: u32,
    /// When the next start is allowed.
    retry_at: Option<Instant>,
}

impl WorkerPool {
    pub(super) fn new(launch: LaunchSpec, target: PoolTarget) -> Self {
        let launch = Arc::new(launch);
        Self { launch, target, starting: 0, crashes: 0, failures: 0, retry_at: None }
    }

    /// When the next start is allowed, if that is in the future.
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.retry_at.filter(|at| *at > Instant::now())
    }

    /// Whether the last browser did not start or died young.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Records a successful start.
    pub(super) fn record_start(&mut self) {
        self.starting -= 1;
        if self.failures > 0 {
            info!("{} starts again", self.launch.name());
        }
    }

    /// Records a failed start. Only the first of a series is logged.
    pub(super) fn record_start_failure(&mut self, reason: &str) {
        self.starting -= 1;
        if self.failures == 0 {
            warn!("{} does not start, retrying: {reason}", self.launch.name());
        }
        self.record_failure();
    }

    /// Records an unexpected end after this uptime.
    pub(super) fn record_crash(&mut self, uptime: Duration) {
        self.crashes += 1;
        if uptime < MIN_STABLE_UPTIME {
            self.record_failure();
        }
    }

    /// Resets the failure count after a stable run.
    pub(super) fn reset_failures(&mut self) {
        (self.failures, self.retry_at) = (0, None);
    }

    fn record_failure(&mut self) {
        self.retry_at = Some(Instant::now() + START_BACKOFF.delay(self.failures, fastrand::f64()));
        self.failures = self.failures.saturating_add(1);
    }
}

/// Whether a browser with this uptime counts as working.
pub(super) fn is_stable(uptime: Duration) -> bool {
    uptime >= MIN_STABLE_UPTIME
}

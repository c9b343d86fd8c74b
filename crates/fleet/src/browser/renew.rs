//! Renewal of the sessions of a worker's jobs, release of those that ended, and wake-ups about
//! them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidemill_core::Error;
use tidemill_core::store::fleet::Attached;
use tidemill_core::wake::Wake;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::browsers::Browsers;
use super::pool::BrowserPool;
use crate::timing::{self, MAX_RENEWAL_RETRY_DELAY, RENEWAL_TIMEOUT};

/// How often to try to release the remaining sessions when the worker stops. The others expire.
const MAX_FINAL_RELEASES: usize = 3;

/// Delay between a wake-up about a session and the check, so that several are checked together.
const RECHECK_DELAY: Duration = Duration::from_millis(20);

/// The task that renews and releases the sessions of all jobs of a worker.
pub(super) struct Renewer {
    pool: Arc<BrowserPool>,
}

impl Renewer {
    pub(super) fn new(pool: Arc<BrowserPool>) -> Self {
        Self { pool }
    }

    pub(super) async fn run(self, end: CancellationToken) {
        let mut wakes = self.pool.store.subscribe();
        let (mut next, mut is_hurried) = (self.sleep(self.renewal_interval()), false);
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                // A failed release is repeated with the next renewal.
                () = self.pool.released.notified() => drop(self.release().await),
                () = &mut next => (next, is_hurried) = (self.sleep(self.renew().await), false),
                wake = wakes.next() => match wake {
                    Some(wake) if self.handle_wake(&wake) && !is_hurried => {
                        (next, is_hurried) = (Box::pin(tokio::time::sleep(RECHECK_DELAY)), true);
                    }
                    Some(_) => {}
                    None => {
                        tokio::time::sleep(MAX_RENEWAL_RETRY_DELAY).await;
                        wakes = self.pool.store.subscribe();
                    }
                },
            }
        }
        self.release_remaining().await;
    }

    fn sleep(&self, pause: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.pool.store.clock().sleep(pause)
    }

    fn renewal_interval(&self) -> Duration {
        timing::renewal_interval(self.pool.browsers.lease.duration)
    }

    /// Handles a wake-up; returns whether to check a session soon. `Everything` does not: the next
    /// renewal finds a missed end, and a store that shares its file with busy writers publishes
    /// `Everything` all the time.
    fn handle_wake(&self, wake: &Wake) -> bool {
        match wake {
            Wake::Capacity(kind) if *kind == Browsers::kind() => self.pool.capacity.notify_waiters(),
            Wake::Everything => self.pool.capacity.notify_waiters(),
            Wake::Session(session) => return self.pool.mark_for_recheck(session),
            _ => {}
        }
        false
    }

    /// Releases ended sessions and renews the others; returns the delay until the next renewal.
    async fn renew(&self) -> Duration {
        let failed = self.release().await;
        match self.attach().await {
            Ok(()) if !failed => self.renewal_interval(),
            Ok(()) => MAX_RENEWAL_RETRY_DELAY,
            Err(error) => {
                warn!("cannot renew sessions, retrying: {}", error.full_message());
                MAX_RENEWAL_RETRY_DELAY
            }
        }
    }

    async fn attach(&self) -> Result<(), Error> {
        let sessions = self.pool.attach_params();
        if sessions.is_empty() {
            return Ok(());
        }
        let Ok(results) = timeout(RENEWAL_TIMEOUT, self.pool.store.fleet().attach(&sessions)).await else {
            return Err(Error::Unavailable { message: "attaching was not answered".into(), source: None });
        };
        for (attach, result) in sessions.iter().zip(results?) {
            if result == Attached::Held {
                self.pool.confirm_attach(&attach.session);
                continue;
            }
            debug!(session = %attach.session, ?result, "a job lost its browser");
            self.pool.mark_lost(&attach.session);
        }
        Ok(())
    }

    /// Returns whether a release failed.
    async fn release(&self) -> bool {
        let releases = self.pool.take_releases();
        if releases.is_empty() {
            return false;
        }
        let released = timeout(RENEWAL_TIMEOUT, self.pool.store.fleet().release(&releases)).await;
        let failed = !matches!(released, Ok(Ok(_)));
        if failed {
            self.pool.requeue_releases(releases);
        }
        failed
    }

    async fn release_remaining(&self) {
        for _ in 0..MAX_FINAL_RELEASES {
            if !self.release().await {
                return;
            }
            tokio::time::sleep(MAX_RENEWAL_RETRY_DELAY / 4).await;
        }
    }
}

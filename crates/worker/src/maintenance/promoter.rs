//! The promoter: makes scheduled jobs ready when they are due.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{PromoteParams, Promoted};
use tidemill_core::{Error, Queue, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::shared::WorkerShared;

/// The maximum number of jobs per call and queue.
const MAX_PROMOTE_JOBS: usize = 512;

/// The first pause without scheduled jobs; it doubles up to the maximum.
const MIN_IDLE_PAUSE: Duration = Duration::from_secs(1);

/// The maximum pause. It bounds the delay when a wake-up is lost, or was never sent by a foreign
/// program.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The minimum pause, however many jobs become due in sequence.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// Sleeps until the next job is due, or until a job is scheduled for an earlier time.
pub(crate) struct Promoter {
    shared: Arc<WorkerShared>,
    queues: Vec<Queue>,
    promote_now: Arc<Notify>,
    idle_pause: Duration,
}

impl Promoter {
    pub(crate) fn new(shared: Arc<WorkerShared>, promote_now: Arc<Notify>) -> Self {
        let queues = shared.queues();
        Self { shared, queues, promote_now, idle_pause: MIN_IDLE_PAUSE }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.promote_loop()).await;
    }

    async fn promote_loop(&mut self) {
        let mut backoff = self.shared.backoff("promoting scheduled jobs");
        loop {
            let asked_at = self.shared.store.clock().now();
            match self.promote().await {
                Ok(promoted) => {
                    backoff.record_success();
                    self.wait_for_next(&promoted, asked_at).await;
                }
                Err(error) => tokio::time::sleep(backoff.record_failure(&error)).await,
            }
        }
    }

    async fn promote(&self) -> Result<Promoted, Error> {
        let promote = PromoteParams { queues: &self.queues, limit: MAX_PROMOTE_JOBS };
        with_timeout(CALL_TIMEOUT, "promote", self.shared.store.promote(promote)).await
    }

    /// Waits until the next job is due, counted from the call that reported it.
    async fn wait_for_next(&mut self, promoted: &Promoted, asked_at: Timestamp) {
        let pause = self.pause(promoted);
        let due = self.shared.store.clock().sleep_until(asked_at.after(pause), pause);
        tokio::time::sleep(MIN_PAUSE).await;
        tokio::select! {
            () = due => {}
            () = self.promote_now.notified() => {}
        }
    }

    fn pause(&mut self, promoted: &Promoted) -> Duration {
        if promoted.moved > 0 || promoted.next.is_some() {
            self.idle_pause = MIN_IDLE_PAUSE;
        } else {
            self.idle_pause = (self.idle_pause * 2).min(MAX_PAUSE);
        }
        promoted.next.map_or(self.idle_pause, |next| next.min(MAX_PAUSE))
    }
}

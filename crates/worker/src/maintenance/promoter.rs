//! Makes scheduled jobs ready when their time has come.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{PromoteParams, Promoted};
use tidemill_core::{Error, Queue};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::shared::WorkerShared;

/// How many jobs one trip moves, per queue.
const MAX_PROMOTE_JOBS: usize = 512;

/// With nothing in sight it looks this soon again, then less and less often.
const MIN_IDLE_PAUSE: Duration = Duration::from_secs(1);

/// A wake-up that was lost, or that a foreign program never sent, costs at most this much, however many queues there are.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Never more often than this, however many jobs come due one after the other.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// Sleeps until the next job is due or somebody schedules one that is due sooner.
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
            match self.promote().await {
                Ok(promoted) => {
                    backoff.record_success();
                    self.wait_for_next(&promoted).await;
                }
                Err(error) => tokio::time::sleep(backoff.record_failure(&error)).await,
            }
        }
    }

    async fn promote(&self) -> Result<Promoted, Error> {
        let promote = PromoteParams { queues: &self.queues, limit: MAX_PROMOTE_JOBS };
        with_timeout(CALL_TIMEOUT, "promote", self.shared.store.promote(promote)).await
    }

    async fn wait_for_next(&mut self, promoted: &Promoted) {
        let pause = self.pause(promoted);
        let due = self.shared.store.clock().sleep(pause);
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

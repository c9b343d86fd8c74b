//! Finds out when a worker's queues have nothing left to do.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::store::{PromoteParams, QueueInfo};

use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::shared::WorkerShared;

/// How soon to look again while this worker is busy: that costs the store nothing.
const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How soon to look again while only others are busy, at first and at the longest.
const IDLE_POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(250)];

/// How empty is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainMode {
    /// Nothing is ready, running or due.
    Due,
    /// Nothing is scheduled either.
    Scheduled,
}

/// Watches the queues of one worker.
pub(crate) struct Drainer {
    shared: Arc<WorkerShared>,
    mode: DrainMode,
}

impl Drainer {
    pub(crate) fn new(shared: Arc<WorkerShared>, mode: DrainMode) -> Self {
        Self { shared, mode }
    }

    /// Completes when the queues are empty. Looked at twice, with nothing in this worker's hands in between:
    /// a store with shards does not count them all in one moment.
    pub(crate) async fn wait(self) {
        let mut backoff = self.shared.backoff("looking whether the queues are empty");
        let (mut pause, mut empty_checks) = (IDLE_POLL_INTERVALS[0], 0);
        // A queue that only other programs fill must be known before it can be seen to be full.
        let queues = self.shared.queues();
        while let Err(error) =
            with_timeout(CALL_TIMEOUT, "make_known", self.shared.store.register(&queues)).await
        {
            tokio::time::sleep(backoff.record_failure(&error)).await;
        }
        while empty_checks < 2 {
            if self.is_busy_here() {
                (pause, empty_checks) = (IDLE_POLL_INTERVALS[0], 0);
                tokio::time::sleep(BUSY_POLL_INTERVAL).await;
                continue;
            }
            match self.is_empty().await {
                Ok(true) => {
                    empty_checks += 1;
                    if empty_checks < 2 {
                        self.interrupt_claims().await;
                    }
                }
                Ok(false) => {
                    empty_checks = 0;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(IDLE_POLL_INTERVALS[1]);
                }
                Err(error) => tokio::time::sleep(backoff.record_failure(&error)).await,
            }
        }
    }

    /// A claim may have taken jobs that its answer is still bringing, and not every store counts those.
    async fn interrupt_claims(&self) {
        let claim_tracker = self.shared.queue_slots.iter().map(|slots| slots.claim_tracker.interrupt());
        futures_util::future::join_all(claim_tracker).await;
    }

    fn is_busy_here(&self) -> bool {
        self.shared.leases.len() > 0 || self.shared.settlement_queue.len() > 0
    }

    async fn is_empty(&self) -> Result<bool, Error> {
        if self.mode == DrainMode::Due && self.promote_due().await? {
            return Ok(false);
        }
        let infos = with_timeout(CALL_TIMEOUT, "queues", self.shared.store.list_queues()).await?;
        let mine =
            infos.iter().filter(|info| self.shared.queue_slots.iter().any(|slots| slots.queue == info.queue));
        Ok(mine.map(|info| self.remaining(info)).sum::<u64>() == 0 && !self.is_busy_here())
    }

    /// Whether jobs are due; if so they are ready now.
    async fn promote_due(&self) -> Result<bool, Error> {
        let queues = self.shared.queues();
        let promote = PromoteParams { queues: &queues, limit: 512 };
        let promoted = with_timeout(CALL_TIMEOUT, "promote", self.shared.store.promote(promote)).await?;
        Ok(promoted.moved > 0 || promoted.next == Some(Duration::ZERO))
    }

    /// How many jobs of a queue are to be waited for. Those of a paused queue might wait for ever.
    fn remaining(&self, info: &QueueInfo) -> u64 {
        let scheduled = if self.mode == DrainMode::Scheduled { info.scheduled } else { 0 };
        // What cannot be counted may be there.
        let uncounted = u64::from(!info.problems.is_empty());
        info.running + if info.paused { 0 } else { info.ready + scheduled + uncounted }
    }
}

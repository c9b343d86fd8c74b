//! Detects when a worker's queues are empty.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::store::{PromoteParams, QueueInfo};

use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::shared::WorkerShared;

/// Poll interval while this worker is busy. Such polls read local state only.
const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// First and maximum poll interval while only other workers are busy.
const IDLE_POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(250)];

/// Which jobs count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainMode {
    /// Jobs that are ready, running or due.
    Due,
    /// Scheduled jobs too.
    Scheduled,
}

/// Polls the queues of one worker.
pub(crate) struct Drainer {
    shared: Arc<WorkerShared>,
    mode: DrainMode,
}

impl Drainer {
    pub(crate) fn new(shared: Arc<WorkerShared>, mode: DrainMode) -> Self {
        Self { shared, mode }
    }

    /// Completes when the queues are empty in two consecutive checks, with no job held by this
    /// worker in between. A sharded store does not count all shards at one moment.
    pub(crate) async fn wait(self) {
        let mut backoff = self.shared.backoff("checking whether the queues are empty");
        let (mut pause, mut empty_checks) = (IDLE_POLL_INTERVALS[0], 0);
        // The store counts only registered queues, and some may be filled by other programs only.
        let queues = self.shared.queues();
        while let Err(error) =
            with_timeout(CALL_TIMEOUT, "register", self.shared.store.register(&queues)).await
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

    /// A claim may have taken jobs whose answer is still on the way. Not every store counts those.
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
        let infos = with_timeout(CALL_TIMEOUT, "list_queues", self.shared.store.list_queues()).await?;
        let mine =
            infos.iter().filter(|info| self.shared.queue_slots.iter().any(|slots| slots.queue == info.queue));
        Ok(mine.map(|info| self.remaining(info)).sum::<u64>() == 0 && !self.is_busy_here())
    }

    /// Whether jobs are due. If so, they are ready now.
    async fn promote_due(&self) -> Result<bool, Error> {
        let queues = self.shared.queues();
        let promote = PromoteParams { queues: &queues, limit: 512 };
        let promoted = with_timeout(CALL_TIMEOUT, "promote", self.shared.store.promote(promote)).await?;
        Ok(promoted.moved > 0 || promoted.next == Some(Duration::ZERO))
    }

    /// The number of jobs to wait for. Jobs of a paused queue might never run.
    fn remaining(&self, info: &QueueInfo) -> u64 {
        let scheduled = if self.mode == DrainMode::Scheduled { info.scheduled } else { 0 };
        // A queue that could not be counted may have jobs.
        let uncounted = u64::from(!info.problems.is_empty());
        info.running + if info.paused { 0 } else { info.ready + scheduled + uncounted }
    }
}

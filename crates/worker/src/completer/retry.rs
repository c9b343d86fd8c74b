//! The retry queue: repeats failed settlements next to the first calls for others.
//!
//! A settlement fails for as long as a user's transaction locks its job, and the error does not
//! tell which settlement of a batch it is. So a batch that fails again is split in halves, until
//! only the locked jobs remain.

use std::collections::VecDeque;

use tidemill_core::Error;
use tokio::sync::mpsc;

use crate::completer::Completer;
use crate::completer::queue::SettlementBatch;
use crate::failure_backoff::FailureBackoff;

/// Failed batches, oldest first.
pub(crate) struct RetryQueue<'a> {
    completer: &'a Completer,
    failed: mpsc::Receiver<(SettlementBatch, Error)>,
    waiting: VecDeque<SettlementBatch>,
    backoff: FailureBackoff,
}

impl<'a> RetryQueue<'a> {
    pub(crate) fn new(completer: &'a Completer, failed: mpsc::Receiver<(SettlementBatch, Error)>) -> Self {
        let backoff = completer.shared.backoff("settling jobs");
        Self { completer, failed, waiting: VecDeque::new(), backoff }
    }

    /// Retries until the queue is empty and its channel closed. The heartbeat extends the leases
    /// meanwhile.
    pub(crate) async fn run(mut self) {
        loop {
            while let Ok((batch, _)) = self.failed.try_recv() {
                self.waiting.push_back(batch);
            }
            if let Some(batch) = self.waiting.pop_front() {
                self.repeat(batch).await;
                continue;
            }
            self.backoff.record_success();
            let Some((batch, error)) = self.failed.recv().await else { return };
            self.waiting.push_back(batch);
            self.pause(&error).await;
        }
    }

    async fn repeat(&mut self, batch: SettlementBatch) {
        if let Err((batch, error)) = self.completer.settle(batch).await {
            self.waiting.extend(batch.split());
            self.pause(&error).await;
        }
    }

    async fn pause(&mut self, error: &Error) {
        tokio::time::sleep(self.backoff.record_failure(error)).await;
    }
}

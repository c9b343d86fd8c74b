//! Repeats settlements that have failed, beside the first tries of others.
//!
//! A settlement may fail for as long as somebody's transaction holds its job locked, and nobody knows which of a
//! batch it is. So a batch that fails again is halved, until those that can be settled are.

use std::collections::VecDeque;

use tidemill_core::Error;
use tokio::sync::mpsc;

use crate::completer::Completer;
use crate::completer::queue::SettlementBatch;
use crate::failure_backoff::FailureBackoff;

/// Batches that have failed, oldest first.
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

    /// Repeats until nothing is left and nothing more can come. The leases are kept alive meanwhile.
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

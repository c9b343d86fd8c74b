//! Repeats settlements that have failed, beside the first tries of others.
//!
//! A settlement may fail for as long as somebody's transaction holds its job locked, and nobody knows which of a
//! batch it is. So a batch that fails again is halved, until those that can be settled are.

use std::collections::VecDeque;

use tidemill_core::Error;
use tokio::sync::mpsc;

use crate::batch::Batch;
use crate::completer::Completer;
use crate::outage::Outage;

/// Batches that have failed, oldest first.
pub(crate) struct Repeater<'a> {
    completer: &'a Completer,
    failed: mpsc::Receiver<(Batch, Error)>,
    waiting: VecDeque<Batch>,
    outage: Outage,
}

impl<'a> Repeater<'a> {
    pub(crate) fn new(completer: &'a Completer, failed: mpsc::Receiver<(Batch, Error)>) -> Self {
        let outage = completer.station.outage("settling jobs");
        Self { completer, failed, waiting: VecDeque::new(), outage }
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
            self.outage.is_over();
            let Some((batch, error)) = self.failed.recv().await else { return };
            self.waiting.push_back(batch);
            self.pause(&error).await;
        }
    }

    async fn repeat(&mut self, batch: Batch) {
        if let Err((batch, error)) = self.completer.settle(batch).await {
            self.waiting.extend(batch.split());
            self.pause(&error).await;
        }
    }

    async fn pause(&mut self, error: &Error) {
        tokio::time::sleep(self.outage.failed(error)).await;
    }
}

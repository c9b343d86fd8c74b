//! Enqueueing plain jobs, which need no checks: the hot path.

use std::sync::Arc;

use tidemill_core::store::{Due, NewJob};
use tidemill_core::{Error, Guarantee, Queue, retry};
use tokio::time::Instant;

use super::receipt::{RECEIPT_TTL_MS, Receipt, ReceiptSlots};
use crate::clock::ServerClock;
use crate::connection::keys::Keys;
use crate::connection::script::Scripts;
use crate::connection::{Connections, ScriptCall, WriteOutcome};

/// Enqueues plain jobs.
#[derive(Debug)]
pub(crate) struct PlainEnqueuer {
    pub(crate) connections: Arc<Connections>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) receipts: ReceiptSlots,
}

impl PlainEnqueuer {
    /// Enqueues plain jobs of one shard: all or none, and once.
    pub(super) async fn enqueue<'a>(
        &self,
        shard_queue: (u16, &Queue),
        jobs: impl Iterator<Item = &'a NewJob> + Clone,
    ) -> Result<WriteOutcome, Error> {
        let mut receipt = self.receipts.take(shard_queue.0);
        let renewal = receipt.needs_renewal().then(Instant::now);
        let try_add = || self.try_enqueue(shard_queue, jobs.clone(), (&receipt, renewal.is_some()));
        let written = retry::with_receipt(&*self.clock, try_add).await?.value;
        if let Some(begun) = renewal {
            receipt.renewed(begun);
        }
        Ok(written)
    }

    async fn try_enqueue<'a>(
        &self,
        (shard, queue): (u16, &Queue),
        jobs: impl Iterator<Item = &'a NewJob>,
        (receipt, renews): (&Receipt<'_>, bool),
    ) -> Result<WriteOutcome, Error> {
        let keys = [
            self.keys.target(shard, queue),
            self.keys.jobs(shard),
            self.keys.queues(shard),
            self.keys.receipt(shard, &receipt.name()),
        ];
        let mut call = ScriptCall::new(&self.scripts.enqueue_plain, &keys)
            .arg(queue.name.as_str())
            .arg(receipt.number)
            .arg(RECEIPT_TTL_MS)
            .arg(i64::from(renews));
        for job in jobs {
            call.push(job.id.chain().as_str());
            call.push(&job.envelope[..]);
        }
        self.connections.write(shard, call).await
    }
}

/// Whether a job is due now, tracked, without links, on a stream, and has a newly generated id.
pub(super) fn is_plain(queue: &Queue, job: &NewJob) -> bool {
    queue.guarantee == Guarantee::AtLeastOnce
        && job.generated_id
        && job.tracked
        && job.due == Due::Now
        && job.links.is_empty()
}

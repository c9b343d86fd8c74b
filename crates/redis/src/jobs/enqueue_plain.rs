//! Adding jobs of which nothing has to be asked: the hot path of enqueueing.

use std::sync::Arc;

use tidemill_core::store::{Due, NewJob};
use tidemill_core::{Error, Guarantee, Queue, retry};
use tokio::time::Instant;

use super::receipt::{RECEIPT_MS, Receipt, Receipts};
use crate::clock::ServerClock;
use crate::connection::keys::Keys;
use crate::connection::script::Scripts;
use crate::connection::{Call, Link, Written};

/// Adds jobs that are plain.
#[derive(Debug)]
pub(crate) struct Adder {
    pub(crate) link: Arc<Link>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) receipts: Receipts,
}

impl Adder {
    /// Adds plain jobs of one shard: all or none, and once.
    pub(super) async fn add<'a>(
        &self,
        place: (u16, &Queue),
        jobs: impl Iterator<Item = &'a NewJob> + Clone,
    ) -> Result<Written, Error> {
        let mut receipt = self.receipts.take(place.0);
        let renewal = receipt.renews().then(Instant::now);
        let try_add = || self.try_add(place, jobs.clone(), (&receipt, renewal.is_some()));
        let written = retry::with_receipt(&*self.clock, try_add).await?.value;
        if let Some(begun) = renewal {
            receipt.renewed(begun);
        }
        Ok(written)
    }

    async fn try_add<'a>(
        &self,
        (shard, queue): (u16, &Queue),
        jobs: impl Iterator<Item = &'a NewJob>,
        (receipt, renews): (&Receipt<'_>, bool),
    ) -> Result<Written, Error> {
        let keys = [
            self.keys.target(shard, queue),
            self.keys.jobs(shard),
            self.keys.queues(shard),
            self.keys.receipt(shard, &receipt.name()),
        ];
        let mut call = Call::new(&self.scripts.enqueue_plain, &keys)
            .arg(queue.name.as_str())
            .arg(receipt.number)
            .arg(RECEIPT_MS)
            .arg(i64::from(renews));
        for job in jobs {
            call.push(job.id.chain().as_str());
            call.push(&job.envelope[..]);
        }
        self.link.write(shard, call).await
    }
}

/// Whether a job goes into a stream now, can be found there, and has an id that nothing else can have.
pub(super) fn is_plain(queue: &Queue, job: &NewJob) -> bool {
    queue.guarantee == Guarantee::AtLeastOnce
        && job.generated_id
        && job.tracked
        && job.due == Due::Now
        && job.links.is_empty()
}

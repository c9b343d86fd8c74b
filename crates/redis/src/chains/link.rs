//! Enqueueing jobs with links: reads everything before it writes anything.

use tidemill_core::store::{EnqueueParams, Enqueued, NewJob};
use tidemill_core::{Error, Guarantee, JobId, Queue, retry};

use super::chain_state::{ChainState, chain_missing};
use super::change::add_key;
use super::dedup::ReservedKey;
use super::linked_job::LinkedJob;
use super::outbox::{OutboxEntry, OutboxResult};
use super::register_wait::new_wait_id;
use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::jobs::{RECEIPT_TTL_MS, unknown_if_created};
use crate::store::RedisStore;

/// How often to read chains again that close while a job is linked to them.
const MAX_LINK_ATTEMPTS: usize = 50;

/// Jobs that are added together.
pub(super) struct LinkedBatch<'a> {
    pub(super) queue: &'a Queue,
    pub(super) jobs: &'a [NewJob],
    /// The receipt of each, so that neither a repeat nor a slow caller creates it twice.
    pub(super) receipts: &'a [String],
    /// The results known so far: the job exists, or it is a duplicate.
    pub(super) results: Vec<Option<Enqueued>>,
    /// The keys that are reserved for them.
    pub(super) reserved: Vec<Option<ReservedKey>>,
}

/// The result for jobs of one shard, and the outbox.
pub(super) struct LinkResult {
    new: Vec<bool>,
    pub(super) outbox: Vec<OutboxEntry>,
    confirmed: Result<(), Error>,
}

impl RedisStore {
    pub(crate) async fn enqueue_linked(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        let EnqueueParams { queue, jobs } = enqueue;
        if queue.guarantee == Guarantee::AtMostOnce {
            return Err(Error::Invalid(
                "an at-most-once job can neither wait for chains nor be deduplicated".into(),
            ));
        }
        let receipts: Vec<String> = jobs.iter().map(|_| new_wait_id()).collect();
        let mut is_repeat = false;
        let begin =
            || self.try_enqueue_linked(queue, jobs, (&receipts, std::mem::replace(&mut is_repeat, true)));
        Ok(retry::with_receipt(&*self.clock, begin).await?.value)
    }

    async fn try_enqueue_linked(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        (receipts, is_repeat): (&[String], bool),
    ) -> Result<Vec<Enqueued>, Error> {
        let mut batch = LinkedBatch {
            queue,
            jobs,
            receipts,
            results: self.find_existing(jobs, receipts, is_repeat).await?,
            reserved: jobs.iter().map(|_| None).collect(),
        };
        if jobs.iter().any(|job| job.links.dedup.is_some()) {
            // No key is reserved for an invalid job.
            self.prepare_jobs(&batch).await?;
        }
        match self.create_all(&mut batch).await {
            Ok(()) => {
                let result = |(job, result): (&NewJob, Option<Enqueued>)| match result {
                    // An id that was made for this call can only have been used by this call.
                    None => Enqueued::Created,
                    Some(Enqueued::Exists) if is_repeat && job.generated_id => Enqueued::Created,
                    Some(result) => result,
                };
                Ok(jobs.iter().zip(batch.results).map(result).collect())
            }
            Err(error) => {
                // Without a reply the chains may exist; the next caller with the same key handles
                // it.
                if !error.is_unavailable() && !matches!(error, Error::Unconfirmed(_)) {
                    self.release_keys(&batch).await;
                }
                Err(error)
            }
        }
    }

    async fn create_all(&self, batch: &mut LinkedBatch<'_>) -> Result<(), Error> {
        self.reserve_keys(batch).await?;
        let shards = self.by_shard(batch.jobs);
        if shards.len() > 1 {
            // Creates nothing in the first shard if a job of the last one is invalid.
            self.prepare_jobs(batch).await?;
        }
        let mut created = Vec::new();
        for (shard, positions) in shards {
            let is_new = |index: &usize| batch.results[*index].is_none();
            let positions: Vec<usize> = positions.into_iter().filter(is_new).collect();
            if positions.is_empty() {
                continue;
            }
            let linked = self.link_in_shard(shard, batch, &positions).await;
            let linked = linked.map_err(|error| unknown_if_created(!created.is_empty(), error))?;
            created.push((shard, positions, linked));
        }
        for (_, positions, linked) in &created {
            for (&index, new) in positions.iter().zip(&linked.new) {
                // Another caller may have created the chain for this reservation.
                let ours = *new || batch.reserved[index].is_some();
                batch.results[index] = Some(if ours { Enqueued::Created } else { Enqueued::Exists });
            }
        }
        let assigned = self.assign_keys(batch).await;
        assigned.map_err(|error| unknown_if_created(!created.is_empty(), error))?;
        let mut confirmed = Ok(());
        for (shard, _, linked) in created {
            confirmed = confirmed.and(linked.confirmed);
            for (_, result) in self.process_entries(shard, linked.outbox).await {
                if let OutboxResult::BlockerMissing(chain) = result.map_err(retry::as_unanswered)? {
                    // The job that was to wait for it is removed; the others are not.
                    return Err(unknown_if_created(batch.jobs.len() > 1, chain_missing(&chain)));
                }
            }
        }
        confirmed
    }

    /// Results for jobs that exist, or that an earlier try has created: their blockers may be gone
    /// by now.
    async fn find_existing(
        &self,
        jobs: &[NewJob],
        receipts: &[String],
        is_repeat: bool,
    ) -> Result<Vec<Option<Enqueued>>, Error> {
        let mut results = vec![None; jobs.len()];
        if is_repeat {
            for (index, job) in jobs.iter().enumerate() {
                let shard = self.keys.shard_of(&job.id);
                let command = redis::cmd("EXISTS").arg(self.keys.receipt(shard, &receipts[index])).take();
                let is_made: bool = self.connections.query(shard, &command).await?;
                results[index] = is_made.then_some(Enqueued::Created);
            }
        }
        let is_asked = |index: &usize| results[*index].is_none() && (is_repeat || !jobs[*index].generated_id);
        let requested: Vec<usize> = (0..jobs.len()).filter(is_asked).collect();
        let ids: Vec<&JobId> = requested.iter().map(|&index| &jobs[index].id).collect();
        for (index, state) in requested.into_iter().zip(self.chain_states(&ids).await?) {
            // A repeated call may have created it itself, and it is done since.
            let is_lost =
                state == ChainState::Open && !is_repeat && self.forget_if_lost(&jobs[index].id).await?;
            results[index] = (state != ChainState::Gone && !is_lost).then_some(Enqueued::Exists);
        }
        Ok(results)
    }

    /// Adds jobs of one shard. If a blocker closes meanwhile, they are prepared again.
    async fn link_in_shard(
        &self,
        shard: u16,
        batch: &LinkedBatch<'_>,
        positions: &[usize],
    ) -> Result<LinkResult, Error> {
        for _ in 0..MAX_LINK_ATTEMPTS {
            let mut linked_jobs = self.prepare_jobs(batch).await?;
            let here: Vec<LinkedJob<'_>> =
                positions.iter().filter_map(|&position| linked_jobs[position].take()).collect();
            if let Some(linked) = self.link_jobs((shard, batch.queue), &here).await? {
                return Ok(linked);
            }
        }
        let message = "the chains it is to wait for keep moving".to_owned();
        Err(Error::Unavailable { message, source: None })
    }

    /// Creates the chain of a reserved key for the caller that reserved it.
    pub(super) async fn link_reserved(
        &self,
        queue: &Queue,
        job: NewJob,
        reserved: ReservedKey,
    ) -> Result<LinkResult, Error> {
        let (shard, jobs, receipts) = (self.keys.shard_of(&job.id), [job], [reserved.receipt.clone()]);
        let (results, reserved) = (vec![None], vec![Some(reserved)]);
        let batch = LinkedBatch { queue, jobs: &jobs, receipts: &receipts, results, reserved };
        self.link_in_shard(shard, &batch, &[0]).await
    }

    /// Adds jobs of one shard; `None`, with nothing written, if they have to be prepared again.
    async fn link_jobs(
        &self,
        (shard, queue): (u16, &Queue),
        linked_jobs: &[LinkedJob<'_>],
    ) -> Result<Option<LinkResult>, Error> {
        let mut keys = self.keys.shard_keys(shard);
        keys.extend([
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.blocked(shard, queue),
            self.keys.queues(shard),
        ]);
        let jobs: Vec<NamedArgs> =
            linked_jobs.iter().map(|linked_job| self.linked_job_args(shard, linked_job, &mut keys)).collect();
        let args = NamedArgs::new()
            .with("channel", self.keys.channel())
            .with("queue", queue.name.as_str())
            .with("receipt_ttl", RECEIPT_TTL_MS)
            .with("jobs", jobs);
        let call = ScriptCall::named(&self.scripts.link, &keys, &args);
        let written = self.connections.write(shard, call).await?;
        let confirmed = written.confirmed("the jobs were made");
        let mut parts = array(written.reply).ok_or_else(|| unexpected_reply("link"))?;
        if let Some(word) = parts.first().cloned().and_then(text) {
            let chain = parts.pop().and_then(text).and_then(|chain| JobId::new(&chain).ok());
            if let (Some(chain), "busy") = (chain, word.as_str()) {
                self.notify_waiters(shard, &chain).await?;
            }
            return Ok(None);
        }
        let outbox = OutboxEntry::parse_all(parts.split_off(linked_jobs.len().min(parts.len())));
        let new = parts.iter().map(|part| int(part) == Some(1)).collect();
        Ok(Some(LinkResult { new, outbox, confirmed }))
    }
    /// The arguments of a job. Adds its keys to those of the script.
    fn linked_job_args(&self, shard: u16, linked_job: &LinkedJob<'_>, keys: &mut Vec<String>) -> NamedArgs {
        let LinkedJob { job, wait_id, receipt, .. } = linked_job;
        let args = linked_job
            .to_args()
            .with("record", add_key(keys, self.keys.record(shard, &job.id)))
            .with("receipt", add_key(keys, self.keys.receipt(shard, receipt)));
        if wait_id.is_empty() {
            return args;
        }
        args.with("wait_id", wait_id)
            .with("waits", add_key(keys, self.keys.waits(shard, wait_id)))
            .with("blockers", linked_job.blocker_args())
    }
}

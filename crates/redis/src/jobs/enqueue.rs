//! Enqueueing jobs. Every call leaves a receipt, which its repeats read.

use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Pipeline;
use tidemill_core::store::{Due, EnqueueParams, Enqueued, NewJob, reserved_ids};
use tidemill_core::{Error, Guarantee, JobId, Queue, Timestamp, retry};

use super::enqueue_plain::is_plain;
use super::group_commit::GroupCommit;
use super::ms;
use super::receipt::{RECEIPT_TTL_MS, Receipt};
use crate::connection::keys::kind_letter;
use crate::connection::reply::{ints, text};
use crate::connection::{ScriptCall, WriteOutcome};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn enqueue_jobs(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        let EnqueueParams { queue, jobs } = enqueue;
        reserved_ids::check_new(jobs)?;
        if jobs.iter().any(|job| !job.links.is_empty()) {
            // Boxed, because it is rare and large.
            return Box::pin(self.enqueue_linked(enqueue)).await;
        }
        if GroupCommit::accepts(queue, jobs) {
            let shard_queue = (self.keys.shard_of(&jobs[0].id), queue.clone());
            self.group_commit.enqueue(shard_queue, jobs[0].clone()).await?;
            return Ok(vec![Enqueued::Created]);
        }
        let (mut results, mut confirmed) = (vec![Enqueued::Created; jobs.len()], Ok(()));
        for (index, (shard, positions)) in self.by_shard(jobs).into_iter().enumerate() {
            let part: Vec<&NewJob> = positions.iter().map(|&position| &jobs[position]).collect();
            let added = self.enqueue_in((shard, queue), &part).await;
            // Earlier shards have their jobs already.
            let (made, written) = added.map_err(|error| unknown_if_created(index > 0, error))?;
            confirmed = confirmed.and(written.confirmed(&created_message(&part)));
            positions.into_iter().zip(made).for_each(|(position, made)| results[position] = made);
        }
        confirmed.map(|()| results)
    }

    /// Enqueues jobs of one shard: all or none, and once.
    async fn enqueue_in(
        &self,
        shard_queue: (u16, &Queue),
        part: &[&NewJob],
    ) -> Result<(Vec<Enqueued>, WriteOutcome), Error> {
        let all_new = || vec![Enqueued::Created; part.len()];
        if part.iter().all(|job| is_plain(shard_queue.1, job)) {
            return Ok((all_new(), self.plain_enqueuer.enqueue(shard_queue, part.iter().copied()).await?));
        }
        if part.iter().any(|job| job.tracked) {
            return self.enqueue_tracked(shard_queue, part).await;
        }
        let receipt = self.plain_enqueuer.receipts.take(shard_queue.0);
        let tries = AtomicUsize::new(0);
        let untracked = || async {
            let is_first = tries.fetch_add(1, Ordering::Relaxed) == 0;
            // The durability class `replicated` waits for a single command.
            if is_first && self.connections.options().replicas == 0 {
                return self.add_untracked(shard_queue, part, &receipt).await;
            }
            self.enqueue_untracked(shard_queue, part, &receipt).await
        };
        Ok((all_new(), retry::with_receipt(&*self.clock, untracked).await?.value))
    }

    pub(crate) fn by_shard(&self, jobs: &[NewJob]) -> Vec<(u16, Vec<usize>)> {
        if self.keys.shards() == 1 {
            return if jobs.is_empty() { Vec::new() } else { vec![(0, (0..jobs.len()).collect())] };
        }
        let mut shards = vec![Vec::new(); usize::from(self.keys.shards())];
        for (position, job) in jobs.iter().enumerate() {
            shards[usize::from(self.keys.shard_of(&job.id))].push(position);
        }
        (0..).zip(shards).filter(|(_, positions)| !positions.is_empty()).collect()
    }

    /// Enqueues tracked jobs. An existing job may have been removed by another program: then its id
    /// is free, and the job is added after all.
    async fn enqueue_tracked(
        &self,
        shard_queue: (u16, &Queue),
        jobs: &[&NewJob],
    ) -> Result<(Vec<Enqueued>, WriteOutcome), Error> {
        let mut created = vec![false; jobs.len()];
        loop {
            // Only jobs that were not created: the others may have finished, and would be created
            // again.
            let missing: Vec<usize> = (0..jobs.len()).filter(|&index| !created[index]).collect();
            let part: Vec<&NewJob> = missing.iter().map(|&index| jobs[index]).collect();
            let receipt = self.plain_enqueuer.receipts.take(shard_queue.0);
            let try_it = || self.try_enqueue_tracked(shard_queue, &part, &receipt);
            let added = retry::with_receipt(&*self.clock, try_it).await;
            let (new, written) =
                added.map_err(|error| unknown_if_created(created.contains(&true), error))?.value;
            missing.into_iter().zip(new).for_each(|(index, new)| created[index] = new == 1);
            let is_there = |(job, created): (&&NewJob, &bool)| (!created).then(|| job.id.chain());
            let there: Vec<JobId> = jobs.iter().zip(&created).filter_map(is_there).collect();
            let forget = || self.forget_lost(shard_queue.0, &there);
            if there.is_empty() {
                return Ok((created.into_iter().map(created_or_exists).collect(), written));
            }
            let forgotten = retry::until_answered(&*self.clock, forget).await;
            if forgotten.map_err(|error| unknown_if_created(created.contains(&true), error))? == 0 {
                return Ok((created.into_iter().map(created_or_exists).collect(), written));
            }
        }
    }

    /// Returns for each job whether it is new.
    async fn try_enqueue_tracked(
        &self,
        (shard, queue): (u16, &Queue),
        jobs: &[&NewJob],
        receipt: &Receipt<'_>,
    ) -> Result<(Vec<i64>, WriteOutcome), Error> {
        let mut keys = vec![
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.jobs(shard),
            self.keys.queues(shard),
            self.keys.notices(shard),
            self.keys.receipt(shard, &receipt.name()),
        ];
        keys.extend(jobs.iter().map(|job| self.keys.record(shard, &job.id)));
        let fresh = jobs.iter().all(|job| job.generated_id);
        loop {
            let mut call = ScriptCall::new(&self.scripts.enqueue, &keys)
                .arg(kind_letter(queue))
                .arg(queue.name.as_str())
                .arg(self.keys.channel())
                .arg(if fresh { "1" } else { "0" })
                .arg(receipt.number)
                .arg(RECEIPT_TTL_MS);
            for job in jobs {
                call.push(job.id.as_str());
                call.push(due_argument(job.due));
                call.push(&job.envelope[..]);
            }
            let written = self.connections.write(shard, call).await?;
            // The id of a closed chain can be reused after its waiters are notified.
            match text(written.reply.clone()) {
                Some(chain) => Box::pin(self.notify_waiters(shard, &JobId::new(&chain)?)).await?,
                None => {
                    return Ok((ints(written.reply.clone(), "enqueue")?, written));
                }
            }
        }
    }

    /// Enqueues untracked jobs by a transaction. That takes the server half the time of a script,
    /// which copies every envelope into Lua and out of it.
    async fn add_untracked(
        &self,
        shard_queue: (u16, &Queue),
        jobs: &[&NewJob],
        receipt: &Receipt<'_>,
    ) -> Result<WriteOutcome, Error> {
        let (shard, queue) = shard_queue;
        let target = self.keys.target(shard, queue);
        let mut commands = Pipeline::with_capacity(jobs.len() + 1);
        match queue.guarantee {
            Guarantee::AtLeastOnce => jobs.iter().for_each(|job| {
                commands.cmd("XADD").arg(&target).arg(b"*").arg(b"data").arg(&job.envelope[..]).ignore();
            }),
            Guarantee::AtMostOnce => {
                let push = commands.cmd("LPUSH").arg(&target);
                jobs.iter().for_each(|job| {
                    push.arg(&job.envelope[..]);
                });
                push.ignore();
            }
        }
        let keys = [target, self.keys.queues(shard), self.keys.receipt(shard, &receipt.name())];
        let keep_added = ScriptCall::new(&self.scripts.keep_added, &keys)
            .arg(kind_letter(queue))
            .arg(queue.name.as_str())
            .arg(receipt.number)
            .arg(RECEIPT_TTL_MS)
            .arg(jobs.len());
        self.connections.transaction(shard, commands, keep_added).await?;
        Ok(WriteOutcome::default())
    }

    /// Enqueues untracked jobs by a script, once: the first try to arrive leaves the receipt.
    async fn enqueue_untracked(
        &self,
        shard_queue: (u16, &Queue),
        jobs: &[&NewJob],
        receipt: &Receipt<'_>,
    ) -> Result<WriteOutcome, Error> {
        let (shard, queue) = shard_queue;
        let key = self.keys.receipt(shard, &receipt.name());
        let keys = [self.keys.target(shard, queue), self.keys.queues(shard), key];
        let mut call = ScriptCall::new(&self.scripts.untracked, &keys)
            .arg(kind_letter(queue))
            .arg(queue.name.as_str())
            .arg(receipt.number)
            .arg(RECEIPT_TTL_MS);
        jobs.iter().for_each(|job| call.push(&job.envelope[..]));
        self.connections.write(shard, call).await
    }
}

/// Names the effect, for an error about missing confirmations of replicas.
fn created_message(jobs: &[&NewJob]) -> String {
    match jobs {
        [job] => format!("job {} was made", job.id),
        _ => "the jobs were made".to_owned(),
    }
}

/// The error of a call that has already created other jobs.
pub(crate) fn unknown_if_created(has_made: bool, error: Error) -> Error {
    if has_made { retry::as_unanswered(error) } else { error }
}

fn created_or_exists(new: bool) -> Enqueued {
    if new { Enqueued::Created } else { Enqueued::Exists }
}

/// The due time as an argument of scripts.
pub(crate) fn due_argument(due: Due) -> String {
    match due {
        Due::Now => String::new(),
        Due::In(delay) if delay.is_zero() => String::new(),
        Due::In(delay) => format!("+{}", ms(delay)),
        Due::At(time) => time.min(Timestamp::MAX).0.to_string(),
    }
}

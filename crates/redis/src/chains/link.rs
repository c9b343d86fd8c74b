//! Adding jobs that are tied to others: everything is looked at before anything is written.

use tidemill_core::store::{EnqueueParams, Enqueued, NewJob};
use tidemill_core::{Error, Guarantee, JobId, Queue, retry};

use super::chain_state::{Life, missing};
use super::dedup::Reserved;
use super::linked_job::Draft;
use super::outbox::{Carried, Errand};
use super::register_wait::new_mark;
use crate::connection::Call;
use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::jobs::{RECEIPT_MS, after_others};
use crate::store::RedisStore;

/// How often to look again at chains that close while a job is made that is to wait for them.
const LOOKS: usize = 50;

/// Jobs that are added together.
pub(super) struct Batch<'a> {
    pub(super) queue: &'a Queue,
    pub(super) jobs: &'a [NewJob],
    /// The receipt of each, so that neither a repeat nor someone who was slow makes it a second time.
    pub(super) receipts: &'a [String],
    /// What is known already of each: that it is there, or that another takes its place.
    pub(super) answers: Vec<Option<Enqueued>>,
    /// The keys that are reserved for them.
    pub(super) reserved: Vec<Option<Reserved>>,
}

/// What became of jobs of one shard, and what is still to be done for them.
pub(super) struct Begun {
    new: Vec<bool>,
    pub(super) errands: Vec<Errand>,
    confirmed: Result<(), Error>,
}

impl RedisStore {
    pub(crate) async fn begin_chains(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        let EnqueueParams { queue, jobs } = enqueue;
        if queue.guarantee == Guarantee::AtMostOnce {
            return Err(Error::Invalid(
                "an at-most-once job can neither wait for chains nor be deduplicated".into(),
            ));
        }
        let receipts: Vec<String> = jobs.iter().map(|_| new_mark()).collect();
        let mut again = false;
        let begin = || self.try_begin(queue, jobs, (&receipts, std::mem::replace(&mut again, true)));
        Ok(retry::with_receipt(&*self.clock, begin).await?.value)
    }

    async fn try_begin(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        (receipts, again): (&[String], bool),
    ) -> Result<Vec<Enqueued>, Error> {
        let mut batch = Batch {
            queue,
            jobs,
            receipts,
            answers: self.already_there(jobs, receipts, again).await?,
            reserved: jobs.iter().map(|_| None).collect(),
        };
        if jobs.iter().any(|job| job.links.dedup.is_some()) {
            // No key is reserved for a job that cannot be made.
            self.drafts(&batch).await?;
        }
        match self.make_all(&mut batch).await {
            Ok(()) => {
                let answer = |(job, answer): (&NewJob, Option<Enqueued>)| match answer {
                    // An id that was made for this call can only have been taken by this call.
                    None => Enqueued::Created,
                    Some(Enqueued::Exists) if again && job.generated_id => Enqueued::Created,
                    Some(answer) => answer,
                };
                Ok(jobs.iter().zip(batch.answers).map(answer).collect())
            }
            Err(error) => {
                // Where the answer is lost the chains may be made; whoever finds their keys will see to it.
                if !error.is_unavailable() && !matches!(error, Error::Unconfirmed(_)) {
                    self.give_keys_back(&batch).await;
                }
                Err(error)
            }
        }
    }

    async fn make_all(&self, batch: &mut Batch<'_>) -> Result<(), Error> {
        self.reserve_keys(batch).await?;
        let shards = self.by_shard(batch.jobs);
        if shards.len() > 1 {
            // Nothing is made in the first shard if something cannot be made in the last.
            self.drafts(batch).await?;
        }
        let mut owed = Vec::new();
        for (shard, positions) in shards {
            let is_new = |index: &usize| batch.answers[*index].is_none();
            let positions: Vec<usize> = positions.into_iter().filter(is_new).collect();
            if positions.is_empty() {
                continue;
            }
            let begun = self.begin_in(shard, batch, &positions).await;
            let begun = begun.map_err(|error| after_others(!owed.is_empty(), error))?;
            owed.push((shard, positions, begun));
        }
        for (_, positions, begun) in &owed {
            for (&index, new) in positions.iter().zip(&begun.new) {
                // Whoever found the key reserved may have made the chain on this call's behalf.
                let ours = *new || batch.reserved[index].is_some();
                batch.answers[index] = Some(if ours { Enqueued::Created } else { Enqueued::Exists });
            }
        }
        let assigned = self.assign_keys(batch).await;
        assigned.map_err(|error| after_others(!owed.is_empty(), error))?;
        let mut confirmed = Ok(());
        for (shard, _, begun) in owed {
            confirmed = confirmed.and(begun.confirmed);
            for (_, carried) in self.carry_all(shard, begun.errands).await {
                if let Carried::Vanished(chain) = carried.map_err(retry::as_unanswered)? {
                    // The job that was to wait for it is taken back; the others are not.
                    return Err(after_others(batch.jobs.len() > 1, missing(&chain)));
                }
            }
        }
        confirmed
    }

    /// Answers for jobs that are there already, or that a call before this one has made: what they were to wait for may
    /// be gone by now.
    async fn already_there(
        &self,
        jobs: &[NewJob],
        receipts: &[String],
        again: bool,
    ) -> Result<Vec<Option<Enqueued>>, Error> {
        let mut answers = vec![None; jobs.len()];
        if again {
            for (index, job) in jobs.iter().enumerate() {
                let shard = self.keys.shard_of(&job.id);
                let ask = redis::cmd("EXISTS").arg(self.keys.receipt(shard, &receipts[index])).take();
                let is_made: bool = self.link.query(shard, &ask).await?;
                answers[index] = is_made.then_some(Enqueued::Created);
            }
        }
        let is_asked = |index: &usize| answers[*index].is_none() && (again || !jobs[*index].generated_id);
        let asked: Vec<usize> = (0..jobs.len()).filter(is_asked).collect();
        let ids: Vec<&JobId> = asked.iter().map(|&index| &jobs[index].id).collect();
        for (index, life) in asked.into_iter().zip(self.lives(&ids).await?) {
            // A repeated call may have made it itself, and it is done since.
            let is_lost = life == Life::Open && !again && self.is_lost(&jobs[index].id).await?;
            answers[index] = (life != Life::Gone && !is_lost).then_some(Enqueued::Exists);
        }
        Ok(answers)
    }

    /// Adds jobs of one shard. If chains they are to wait for close meanwhile, they are drafted anew.
    async fn begin_in(&self, shard: u16, batch: &Batch<'_>, positions: &[usize]) -> Result<Begun, Error> {
        for _ in 0..LOOKS {
            let mut drafts = self.drafts(batch).await?;
            let here: Vec<Draft<'_>> =
                positions.iter().filter_map(|&position| drafts[position].take()).collect();
            if let Some(begun) = self.begin_drafts((shard, batch.queue), &here).await? {
                return Ok(begun);
            }
        }
        let message = "the chains it is to wait for keep moving".to_owned();
        Err(Error::Unavailable { message, source: None })
    }

    /// Makes the chain for which a key is reserved, on behalf of whoever reserved it.
    pub(super) async fn begin_one(
        &self,
        queue: &Queue,
        job: NewJob,
        reserved: Reserved,
    ) -> Result<Begun, Error> {
        let (shard, jobs, receipts) = (self.keys.shard_of(&job.id), [job], [reserved.receipt.clone()]);
        let (answers, reserved) = (vec![None], vec![Some(reserved)]);
        let batch = Batch { queue, jobs: &jobs, receipts: &receipts, answers, reserved };
        self.begin_in(shard, &batch, &[0]).await
    }

    /// Adds jobs of one shard; `None`, with nothing written, if they have to be drafted anew.
    async fn begin_drafts(
        &self,
        (shard, queue): (u16, &Queue),
        drafts: &[Draft<'_>],
    ) -> Result<Option<Begun>, Error> {
        let mut keys = self.keys.home(shard);
        keys.extend([
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.blocked(shard, queue),
            self.keys.queues(shard),
        ]);
        for Draft { job, mark, receipt, .. } in drafts {
            keys.push(self.keys.record(shard, &job.id));
            keys.push(self.keys.receipt(shard, receipt));
            keys.extend((!mark.is_empty()).then(|| self.keys.waits(shard, mark)));
        }
        let mut call = Call::new(&self.scripts.link, &keys)
            .arg(self.keys.channel())
            .arg(queue.name.as_str())
            .arg(RECEIPT_MS);
        drafts.iter().for_each(|draft| draft.push(&mut call));
        let written = self.link.write(shard, call).await?;
        let confirmed = written.confirmed("the jobs were made");
        let mut parts = array(written.answer).ok_or_else(|| odd_answer("begin"))?;
        if let Some(word) = parts.first().cloned().and_then(text) {
            let chain = parts.pop().and_then(text).and_then(|chain| JobId::new(&chain).ok());
            if let (Some(chain), "busy") = (chain, word.as_str()) {
                self.tell_waiters(shard, &chain).await?;
            }
            return Ok(None);
        }
        let errands = Errand::all(parts.split_off(drafts.len().min(parts.len())));
        let new = parts.iter().map(|part| int(part) == Some(1)).collect();
        Ok(Some(Begun { new, errands, confirmed }))
    }
}

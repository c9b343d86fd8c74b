//! Adding jobs: plain commands in a transaction where nobody will ask for the job by its id, else a script
//! that looks first.

use redis::Pipeline;
use tidemill_core::store::{Due, Enqueue, Enqueued, NewJob, guard};
use tidemill_core::{Delivery, Error, JobId, Queue, Timestamp};

use super::add::is_plain;
use super::group::Clerk;
use super::ms;
use crate::error::classify;
use crate::keys::{letter, member};
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{int, ints, text};

/// How long a receipt proves that a batch was added: longer than any repeated call comes after its first.
const RECEIPT_MS: u64 = 60_000;

impl RedisStore {
    pub(crate) async fn enqueue_jobs(&self, enqueue: Enqueue<'_>) -> Result<Vec<Enqueued>, Error> {
        let Enqueue { queue, jobs, again } = enqueue;
        guard::check_new(jobs)?;
        if jobs.iter().any(|job| !job.links.is_empty()) {
            return self.begin_chains(enqueue).await;
        }
        if !again && Clerk::takes(queue, jobs) {
            let place = (self.keys.shard_of(&jobs[0].id), queue.clone());
            self.clerk.add(place, jobs[0].clone()).await?;
            return Ok(vec![Enqueued::Created]);
        }
        let mut answers = vec![Enqueued::Created; jobs.len()];
        for (shard, positions) in self.by_shard(jobs) {
            let part: Vec<&NewJob> = positions.iter().map(|&position| &jobs[position]).collect();
            let made = self.enqueue_in((shard, queue), &part, again).await?;
            self.link.await_replicas(shard).await?;
            positions.into_iter().zip(made).for_each(|(position, made)| answers[position] = made);
        }
        Ok(answers)
    }

    async fn enqueue_in(
        &self,
        place: (u16, &Queue),
        part: &[&NewJob],
        again: bool,
    ) -> Result<Vec<Enqueued>, Error> {
        if !again && part.iter().all(|job| is_plain(place.1, job)) {
            self.adder.add(place, part.iter().copied()).await?;
            return Ok(vec![Enqueued::Created; part.len()]);
        }
        if part.iter().any(|job| job.tracked) {
            return self.enqueue_tracked(place, part, again).await;
        }
        if again { self.enqueue_again(place, part).await } else { self.enqueue_untracked(place, part).await }
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

    async fn enqueue_tracked(
        &self,
        (shard, queue): (u16, &Queue),
        jobs: &[&NewJob],
        again: bool,
    ) -> Result<Vec<Enqueued>, Error> {
        let mut keys = vec![
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.jobs(shard),
            self.keys.queues(shard),
            self.keys.notices(shard),
        ];
        keys.extend(jobs.iter().map(|job| self.keys.record(shard, &job.id)));
        let fresh = !again && jobs.iter().all(|job| job.fresh);
        let mut created = vec![false; jobs.len()];
        loop {
            let mut call = Call::new(&self.scripts.enqueue, &keys)
                .arg(letter(queue))
                .arg(queue.name.as_str())
                .arg(self.keys.channel())
                .arg(if fresh { "1" } else { "0" });
            for job in jobs {
                call.push(job.id.as_str());
                call.push(due(job.due));
                call.push(&job.envelope[..]);
            }
            let answer = self.link.call(shard, call).await?;
            // An id whose last chain is gone is free when those that waited for it know.
            if let Some(chain) = text(answer.clone()) {
                self.tell_waiters(shard, &JobId::new(&chain)?).await?;
                continue;
            }
            let new = ints(answer, "enqueue")?;
            created.iter_mut().zip(new).for_each(|(created, new)| *created |= new == 1);
            let is_there = |(job, created): (&&NewJob, &bool)| (!created).then(|| job.id.chain());
            let there: Vec<JobId> = jobs.iter().zip(&created).filter_map(is_there).collect();
            // Another program may have taken away what is there; a repeated call, though, may have made it itself.
            if again || there.is_empty() || self.forget_lost(shard, &there).await? == 0 {
                return Ok(created.into_iter().map(made).collect());
            }
        }
    }

    async fn enqueue_untracked(
        &self,
        place: (u16, &Queue),
        jobs: &[&NewJob],
    ) -> Result<Vec<Enqueued>, Error> {
        let (shard, queue) = place;
        let target = self.keys.target(shard, queue);
        let mut batch = Pipeline::with_capacity(jobs.len() + 2);
        batch.atomic();
        match queue.delivery {
            Delivery::AtLeastOnce => {
                for job in jobs {
                    batch.cmd("XADD").arg(&target).arg(b"*").arg(b"data").arg(&job.envelope[..]).ignore();
                }
            }
            Delivery::AtMostOnce => {
                let push = batch.cmd("LPUSH").arg(&target);
                for job in jobs {
                    push.arg(&job.envelope[..]);
                }
                push.ignore();
            }
        }
        let member = member(queue);
        batch.cmd("SADD").arg(self.keys.queues(shard)).arg(member).ignore();
        let receipt = self.keys.receipt(shard, jobs[0].id.as_str());
        batch.cmd("SET").arg(receipt).arg(1).arg("PX").arg(RECEIPT_MS).ignore();
        self.link.pipeline(shard, &batch).await.map_err(|error| classify("enqueue", error))?;
        Ok(vec![Enqueued::Created; jobs.len()])
    }

    async fn enqueue_again(&self, place: (u16, &Queue), jobs: &[&NewJob]) -> Result<Vec<Enqueued>, Error> {
        let (shard, queue) = place;
        let receipt = self.keys.receipt(shard, jobs[0].id.as_str());
        let keys = [self.keys.target(shard, queue), self.keys.queues(shard), receipt];
        let mut call =
            Call::new(&self.scripts.again, &keys).arg(letter(queue)).arg(queue.name.as_str()).arg(RECEIPT_MS);
        jobs.iter().for_each(|job| call.push(&job.envelope[..]));
        let new = int(&self.link.call(shard, call).await?) == Some(1);
        Ok(vec![if new { Enqueued::Created } else { Enqueued::Exists }; jobs.len()])
    }
}

fn made(new: bool) -> Enqueued {
    if new { Enqueued::Created } else { Enqueued::Exists }
}

/// When a job is due, as scripts read it.
pub(crate) fn due(due: Due) -> String {
    match due {
        Due::Now => String::new(),
        Due::In(delay) if delay.is_zero() => String::new(),
        Due::In(delay) => format!("+{}", ms(delay)),
        Due::At(time) => time.min(Timestamp::MAX).0.to_string(),
    }
}

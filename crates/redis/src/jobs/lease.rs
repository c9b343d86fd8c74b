//! Starting held jobs and extending leases.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::store::{Claimed, ExtendParams, Extended, StartParams, Verdict};
use tidemill_core::{Error, Guarantee, HolderId, Lease};

use super::list::{is_unlocked, lock_token};
use super::{by_place, ms};
use crate::breaker::SHARD_TIMEOUT;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{entry_id, ints};

/// What a busy server may need to extend leases, however short they are.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);

impl RedisStore {
    pub(crate) async fn start_jobs(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        let part = |leases: Vec<Lease>| self.start_part(leases, start.worker);
        let held = self.each_place(start.leases, SHARD_TIMEOUT, part).await?;
        // Of leases whose place failed nobody knows whether they were started: they are not run, and given back.
        let verdict = |held| {
            if matches!(held, Extended::Lost | Extended::Unknown) {
                Verdict::LeaseLost
            } else {
                Verdict::Accepted
            }
        };
        Ok(held.into_iter().map(verdict).collect())
    }

    /// Starts jobs of one place.
    async fn start_part(&self, leases: Vec<Lease>, worker: &HolderId) -> Result<Vec<Extended>, Error> {
        match leases[0].queue.guarantee {
            Guarantee::AtLeastOnce => self.start_entries(&leases, worker).await,
            // A job taken from a list is gone from there whether it starts or not.
            Guarantee::AtMostOnce => self.extend_locks(&leases, (worker, 0)).await,
        }
    }

    /// Asks the place of each lease, all at once: one that fails must not keep the leases of others from being extended. Its
    /// own are [`Extended::Unknown`] then. An error only if every place fails.
    async fn each_place<F>(
        &self,
        leases: &[Lease],
        limit: Duration,
        part: impl Fn(Vec<Lease>) -> F,
    ) -> Result<Vec<Extended>, Error>
    where
        F: Future<Output = Result<Vec<Extended>, Error>>,
    {
        let places = by_place(leases.iter());
        let calls = places.iter().map(|(first, members)| {
            let leases = members.iter().map(|&member| leases[member].clone()).collect();
            self.breaker.in_time(first.shard, limit, part(leases))
        });
        let (mut held, mut answers, mut failure) = (vec![Extended::Unknown; leases.len()], 0, None);
        for ((first, members), answer) in places.iter().zip(join_all(calls).await) {
            match answer {
                Ok(answer) => {
                    answers += 1;
                    members.iter().zip(answer).for_each(|(&member, answer)| held[member] = answer);
                }
                Err(error) => {
                    let queue = &first.queue;
                    tracing::debug!(%queue, shard = first.shard, error = error.chain(), "leases are in doubt");
                    failure = Some(error);
                }
            }
        }
        failure.filter(|_| answers == 0).map_or(Ok(held), Err)
    }

    async fn start_entries(&self, leases: &[Lease], worker: &HolderId) -> Result<Vec<Extended>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        let keys = [self.keys.target(shard, queue)];
        let mut call = Call::new(&self.scripts.start, &keys).arg(self.group(queue)).arg(worker.as_str());
        leases.iter().for_each(|lease| call.push(entry_id(lease.token)));
        let answer = ints(self.link.call(shard, call).await?, "start")?;
        Ok(answer.into_iter().map(held).collect())
    }

    /// Makes jobs that a blocked read brought beyond what was asked for held ones.
    pub(super) async fn hold_back(&self, jobs: &mut [Claimed], worker: &HolderId) -> Result<(), Error> {
        jobs.iter_mut().for_each(|job| job.started = false);
        for job in jobs {
            if job.lease.queue.guarantee == Guarantee::AtLeastOnce {
                let (shard, queue) = (job.lease.shard, &job.lease.queue);
                let call = Call::new(&self.scripts.retreat, &[self.keys.target(shard, queue)])
                    .arg(self.group(queue))
                    .arg(worker.as_str())
                    .arg(entry_id(job.lease.token));
                self.link.call(shard, call).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn extend_leases(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        let limit = (extend.lease / 6).clamp(SHORTEST_LIMIT, SHARD_TIMEOUT);
        let (worker, lease) = (extend.worker, ms(extend.lease));
        self.each_place(extend.leases, limit, |leases| self.extend_part(leases, worker, lease)).await
    }

    /// Extends leases of one place.
    async fn extend_part(
        &self,
        leases: Vec<Lease>,
        worker: &HolderId,
        lease: i64,
    ) -> Result<Vec<Extended>, Error> {
        match leases[0].queue.guarantee {
            Guarantee::AtLeastOnce => self.extend_entries(&leases, (worker, lease)).await,
            Guarantee::AtMostOnce => self.extend_locks(&leases, (worker, lease)).await,
        }
    }

    async fn extend_entries(
        &self,
        leases: &[Lease],
        (worker, lease): (&HolderId, i64),
    ) -> Result<Vec<Extended>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        let keys = [
            self.keys.target(shard, queue),
            self.keys.leases(shard, queue),
            self.keys.cancelled(shard, queue),
        ];
        let mut call =
            Call::new(&self.scripts.extend, &keys).arg(self.group(queue)).arg(worker.as_str()).arg(lease);
        for lease in leases {
            call.push(entry_id(lease.token));
            call.push(lease.job.chain().as_str());
        }
        let answer = ints(self.link.call(shard, call).await?, "extend")?;
        Ok(answer.into_iter().map(held).collect())
    }

    /// Extends locks; with a life of 0, only asks for them. Of jobs that are never locked there is nothing to ask.
    async fn extend_locks(
        &self,
        leases: &[Lease],
        (worker, life): (&HolderId, i64),
    ) -> Result<Vec<Extended>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        if life == 0 && leases.iter().all(is_unlocked) {
            return Ok(vec![Extended::Yes; leases.len()]);
        }
        let mut keys = vec![
            self.keys.cancelled(shard, queue),
            self.keys.running(shard, queue),
            self.keys.untracked(shard, queue),
        ];
        keys.extend(leases.iter().map(|lease| self.keys.lock(shard, queue, &lease.job)));
        let mut call = Call::new(&self.scripts.hold, &keys).arg(life).arg(worker.as_str());
        for lease in leases {
            call.push(lock_token(lease));
            call.push(lease.job.chain().as_str());
            call.push(lease.job.as_str());
        }
        if life > 0 {
            self.noted.add(leases.iter().filter(|lease| is_unlocked(lease)).map(|lease| &lease.job));
        }
        let answer = ints(self.link.call(shard, call).await?, "hold")?;
        Ok(answer.into_iter().map(held).collect())
    }
}

fn held(answer: i64) -> Extended {
    match answer {
        1 => Extended::Yes,
        2 => Extended::Cancelling,
        _ => Extended::Lost,
    }
}

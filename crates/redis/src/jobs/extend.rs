//! Extending leases.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::store::{ExtendParams, Extended};
use tidemill_core::{Error, Guarantee, HolderId, Lease};

use super::list::{is_unlocked, lock_token};
use super::{by_place, ms};
use crate::connection::Call;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::{entry_id, ints};
use crate::store::RedisStore;

/// What a busy server may need to extend leases, however short they are.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);

impl RedisStore {
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

    /// Asks the place of each lease, all at once: one that fails must not keep the leases of others from being extended. Its
    /// own are [`Extended::Unknown`] then. An error only if every place fails.
    pub(super) async fn each_place<F>(
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
                    tracing::debug!(%queue, shard = first.shard, error = error.full_message(), "leases are in doubt");
                    failure = Some(error);
                }
            }
        }
        failure.filter(|_| answers == 0).map_or(Ok(held), Err)
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
    pub(super) async fn extend_locks(
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
        let mut call = Call::new(&self.scripts.extend_locks, &keys).arg(life).arg(worker.as_str());
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

pub(super) fn held(answer: i64) -> Extended {
    match answer {
        1 => Extended::Yes,
        2 => Extended::Cancelling,
        _ => Extended::Lost,
    }
}

//! Extending leases.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::store::{ExtendParams, Extended};
use tidemill_core::{Error, Guarantee, HolderId, Lease};

use super::list::{is_unlocked, lock_token};
use super::{by_queue, ms};
use crate::connection::ScriptCall;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::{entry_id, ints};
use crate::store::RedisStore;

/// Minimum time limit for extending leases, however short they are: a busy server may need it.
const MIN_EXTEND_TIMEOUT: Duration = Duration::from_secs(1);

impl RedisStore {
    pub(crate) async fn extend_leases(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        let limit = (extend.lease / 6).clamp(MIN_EXTEND_TIMEOUT, SHARD_TIMEOUT);
        let (worker, lease) = (extend.worker, ms(extend.lease));
        self.each_queue(extend.leases, limit, |leases| self.extend_part(leases, worker, lease)).await
    }

    /// Extends leases of one queue in one shard.
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

    /// Calls every queue of the leases concurrently: one that fails must not prevent the extension
    /// of others. Its own leases are [`Extended::Unknown`] then. An error only if all queues fail.
    pub(super) async fn each_queue<F>(
        &self,
        leases: &[Lease],
        limit: Duration,
        part: impl Fn(Vec<Lease>) -> F,
    ) -> Result<Vec<Extended>, Error>
    where
        F: Future<Output = Result<Vec<Extended>, Error>>,
    {
        let queues = by_queue(leases.iter());
        let calls = queues.iter().map(|(first, members)| {
            let leases = members.iter().map(|&member| leases[member].clone()).collect();
            self.breaker.within(first.shard, limit, part(leases))
        });
        let (mut held, mut replies, mut failure) = (vec![Extended::Unknown; leases.len()], 0, None);
        for ((first, members), reply) in queues.iter().zip(join_all(calls).await) {
            match reply {
                Ok(reply) => {
                    replies += 1;
                    members.iter().zip(reply).for_each(|(&member, reply)| held[member] = reply);
                }
                Err(error) => {
                    let queue = &first.queue;
                    tracing::debug!(%queue, shard = first.shard, error = error.full_message(), "the state of leases is unknown");
                    failure = Some(error);
                }
            }
        }
        failure.filter(|_| replies == 0).map_or(Ok(held), Err)
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
        let mut call = ScriptCall::new(&self.scripts.extend, &keys)
            .arg(self.group(queue))
            .arg(worker.as_str())
            .arg(lease);
        for lease in leases {
            call.push(entry_id(lease.token));
            call.push(lease.job.chain().as_str());
        }
        let reply = ints(self.connections.call(shard, call).await?, "extend")?;
        Ok(reply.into_iter().map(parse_held).collect())
    }

    /// Extends locks; with a lifetime of 0, only checks them. Jobs that are never locked need no
    /// check.
    pub(super) async fn extend_locks(
        &self,
        leases: &[Lease],
        (worker, lifetime): (&HolderId, i64),
    ) -> Result<Vec<Extended>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        if lifetime == 0 && leases.iter().all(is_unlocked) {
            return Ok(vec![Extended::Yes; leases.len()]);
        }
        let mut keys = vec![
            self.keys.cancelled(shard, queue),
            self.keys.running(shard, queue),
            self.keys.untracked(shard, queue),
        ];
        keys.extend(leases.iter().map(|lease| self.keys.lock(shard, queue, &lease.job)));
        let mut call = ScriptCall::new(&self.scripts.extend_locks, &keys).arg(lifetime).arg(worker.as_str());
        for lease in leases {
            call.push(lock_token(lease));
            call.push(lease.job.chain().as_str());
            call.push(lease.job.as_str());
        }
        if lifetime > 0 {
            self.running_untracked
                .add(leases.iter().filter(|lease| is_unlocked(lease)).map(|lease| &lease.job));
        }
        let reply = ints(self.connections.call(shard, call).await?, "extend_locks")?;
        Ok(reply.into_iter().map(parse_held).collect())
    }
}

pub(super) fn parse_held(reply: i64) -> Extended {
    match reply {
        1 => Extended::Yes,
        2 => Extended::Cancelling,
        _ => Extended::Lost,
    }
}

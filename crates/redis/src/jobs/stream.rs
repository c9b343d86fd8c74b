//! Reading a stream with XREADGROUP: by the worker's consumer for jobs that start, by its `+held`
//! consumer for buffered jobs. The consumer shows later whether a crash counts as an attempt.

use std::future::Future;
use std::sync::PoisonError;
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisError, Value};
use tidemill_core::store::Claimed;
use tidemill_core::{Error, JobId, Lease, Queue};

use super::claim::ShardClaim;
use super::ms;
use crate::connection::keys::queue_member;
use crate::connection::reply::{HELD_SUFFIX, StreamEntry, UNTRACKED_BIT, entry_id, read_group};
use crate::connection::{BlockingConnection, ScriptCall};
use crate::error::{classify, is_no_group};
use crate::store::RedisStore;

impl RedisStore {
    /// Claims ready entries, without waiting.
    pub(super) async fn read_stream(&self, claim: ShardClaim<'_>) -> Result<Vec<Claimed>, Error> {
        let mut batch = Pipeline::new();
        if claim.starting > 0 {
            batch.add_command(self.read(claim, "", (claim.starting, None)));
        }
        if claim.held > 0 {
            batch.add_command(self.read(claim, HELD_SUFFIX, (claim.held, None)));
        }
        self.prepare(claim).await?;
        let reply = match self.connections.pipeline(claim.shard, &batch).await {
            Err(error) if is_no_group(&error) => {
                self.prepare_again(claim).await?;
                self.connections.pipeline(claim.shard, &batch).await
            }
            reply => reply,
        };
        let mut replies = reply.map_err(|error| classify("XREADGROUP", error))?.into_iter();
        let mut jobs = Vec::new();
        if claim.starting > 0 {
            self.collect(claim, (replies.next(), true), &mut jobs)?;
        }
        if claim.held > 0 {
            self.collect(claim, (replies.next(), false), &mut jobs)?;
        }
        Ok(jobs)
    }

    /// Claims ready entries, or waits for them.
    pub(super) async fn wait_on_stream(
        &self,
        claim: ShardClaim<'_>,
        wait: Duration,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Vec<Claimed>, Error> {
        self.prepare(claim).await?;
        let command = self.read(claim, "", (claim.starting, Some(wait)));
        let what = "a blocking XREADGROUP";
        let reply = match self.read_on_own_connection(claim.shard, (&command, wait), interrupt).await {
            Err(error) if is_no_group(&error) => {
                self.prepare_again(claim).await?;
                return Ok(Vec::new());
            }
            // A stream that is deleted (FLUSHALL, DEL) unblocks its readers with this error.
            Err(error) if error.code() == Some("UNBLOCKED") => return Ok(Vec::new()),
            reply => reply.map_err(|error| classify(what, error))?,
        };
        let mut jobs = Vec::new();
        self.collect(claim, (Some(reply), true), &mut jobs)?;
        Ok(jobs)
    }

    /// Sends a blocking command on a dedicated connection.
    pub(super) async fn read_on_own_connection(
        &self,
        shard: u16,
        read: (&Cmd, Duration),
        interrupt: impl Future<Output = ()>,
    ) -> Result<Value, RedisError> {
        self.connections.count_commands(1);
        let node = self.connections.node(shard);
        match BlockingConnection::acquire(&node).await?.read(&node, read, interrupt).await {
            Err(error) => Err(self.connections.explain_error(shard, std::iter::once(read.0), error).await),
            reply => reply,
        }
    }

    fn read(&self, claim: ShardClaim<'_>, suffix: &str, (count, block): (usize, Option<Duration>)) -> Cmd {
        let mut command = redis::cmd("XREADGROUP");
        let consumer = format!("{}{suffix}", claim.worker);
        command.arg("GROUP").arg(self.group(claim.queue)).arg(consumer).arg("COUNT").arg(count);
        if let Some(wait) = block {
            command.arg("BLOCK").arg(ms(wait));
        }
        command.arg("STREAMS").arg(self.keys.target(claim.shard, claim.queue)).arg(">");
        command
    }

    fn collect(
        &self,
        claim: ShardClaim<'_>,
        (reply, started): (Option<Value>, bool),
        jobs: &mut Vec<Claimed>,
    ) -> Result<(), Error> {
        let entries = read_group(reply.unwrap_or(Value::Nil))?;
        jobs.extend(entries.into_iter().map(|entry| claimed((claim.queue, claim.shard), entry, started)));
        Ok(())
    }

    /// Makes sure, once per process, that the group exists and this worker's lease is recorded.
    async fn prepare(&self, claim: ShardClaim<'_>) -> Result<(), Error> {
        let prepared_key = (claim.queue.clone(), claim.shard, claim.worker.clone());
        if self.prepared.lock().unwrap_or_else(PoisonError::into_inner).contains(&prepared_key) {
            return Ok(());
        }
        self.prepare_again(claim).await?;
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(prepared_key);
        Ok(())
    }

    async fn prepare_again(&self, claim: ShardClaim<'_>) -> Result<(), Error> {
        let ShardClaim { queue, worker, lease, shard, .. } = claim;
        let keys = [self.keys.queues(shard), self.keys.target(shard, queue), self.keys.leases(shard, queue)];
        let call = ScriptCall::new(&self.scripts.prepare, &keys)
            .arg(queue_member(queue))
            .arg(self.group(queue))
            .arg(worker.as_str())
            .arg(ms(lease));
        self.connections.call(shard, call).await?;
        Ok(())
    }
}

/// The claim of a stream entry: the entry's id is its token.
pub(super) fn claimed((queue, shard): (&Queue, u16), entry: StreamEntry, started: bool) -> Claimed {
    let StreamEntry { token, data } = entry;
    let mut claimed = Claimed::read(data, started, |id| Lease {
        queue: queue.clone(),
        job: id.cloned().unwrap_or_else(|| invalid_job_id(&entry_id(token))),
        shard,
        token,
    });
    if claimed.body.as_ref().is_ok_and(|envelope| !envelope.tracked()) {
        claimed.lease.token.0 |= UNTRACKED_BIT;
    }
    claimed
}

/// Prefix of ids for bytes without a job id.
pub(crate) const INVALID_ID_PREFIX: &str = "invalid-";

/// An id for bytes without a job id.
pub(super) fn invalid_job_id(suffix: &str) -> JobId {
    JobId::new(&format!("{INVALID_ID_PREFIX}{suffix}")).unwrap_or_else(|_| JobId::generate())
}

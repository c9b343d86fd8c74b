//! Reading a stream: plain XREADGROUP, by the worker's consumer for jobs that start, by its `+held` consumer
//! for jobs that only wait in its buffer. Whose entry it is says later whether a crash counts as an attempt.

use std::future::Future;
use std::sync::PoisonError;
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisError, Value};
use tidemill_core::store::Claimed;
use tidemill_core::{Error, JobId, Lease, Queue};

use super::claim::Share;
use super::ms;
use crate::connection::keys::member;
use crate::connection::reply::{Entry, HELD, UNTRACKED, entry_id, read_group};
use crate::connection::{Blocking, Call};
use crate::error::{classify, is_no_group};
use crate::store::RedisStore;

impl RedisStore {
    /// Takes what is there, without waiting.
    pub(super) async fn read_stream(&self, share: Share<'_>) -> Result<Vec<Claimed>, Error> {
        let mut batch = Pipeline::new();
        if share.starting > 0 {
            batch.add_command(self.read(share, "", (share.starting, None)));
        }
        if share.held > 0 {
            batch.add_command(self.read(share, HELD, (share.held, None)));
        }
        self.prepare(share).await?;
        let answer = match self.link.pipeline(share.shard, &batch).await {
            Err(error) if is_no_group(&error) => {
                self.prepare_anew(share).await?;
                self.link.pipeline(share.shard, &batch).await
            }
            answer => answer,
        };
        let mut answers = answer.map_err(|error| classify("XREADGROUP", error))?.into_iter();
        let mut jobs = Vec::new();
        if share.starting > 0 {
            self.collect(share, (answers.next(), true), &mut jobs)?;
        }
        if share.held > 0 {
            self.collect(share, (answers.next(), false), &mut jobs)?;
        }
        Ok(jobs)
    }

    /// Takes what is there, or waits for it.
    pub(super) async fn await_stream(
        &self,
        share: Share<'_>,
        wait: Duration,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Vec<Claimed>, Error> {
        self.prepare(share).await?;
        let command = self.read(share, "", (share.starting, Some(wait)));
        let what = "a blocking XREADGROUP";
        let answer = match self.block(share.shard, (&command, wait), interrupt).await {
            Err(error) if is_no_group(&error) => {
                self.prepare_anew(share).await?;
                return Ok(Vec::new());
            }
            // A stream that vanishes under a blocked reader (FLUSHALL, DEL) unblocks it with this.
            Err(error) if error.code() == Some("UNBLOCKED") => return Ok(Vec::new()),
            answer => answer.map_err(|error| classify(what, error))?,
        };
        let mut jobs = Vec::new();
        self.collect(share, (Some(answer), true), &mut jobs)?;
        Ok(jobs)
    }

    /// Sends a blocking command on a connection of its own.
    pub(super) async fn block(
        &self,
        shard: u16,
        read: (&Cmd, Duration),
        interrupt: impl Future<Output = ()>,
    ) -> Result<Value, RedisError> {
        self.link.count(1);
        let node = self.link.node(shard);
        match Blocking::take(&node).await?.read(&node, read, interrupt).await {
            Err(error) => Err(self.link.explained(shard, std::iter::once(read.0), error).await),
            answer => answer,
        }
    }

    fn read(&self, share: Share<'_>, suffix: &str, (count, block): (usize, Option<Duration>)) -> Cmd {
        let mut command = redis::cmd("XREADGROUP");
        let consumer = format!("{}{suffix}", share.worker);
        command.arg("GROUP").arg(self.group(share.queue)).arg(consumer).arg("COUNT").arg(count);
        if let Some(wait) = block {
            command.arg("BLOCK").arg(ms(wait));
        }
        command.arg("STREAMS").arg(self.keys.target(share.shard, share.queue)).arg(">");
        command
    }

    fn collect(
        &self,
        share: Share<'_>,
        (answer, started): (Option<Value>, bool),
        jobs: &mut Vec<Claimed>,
    ) -> Result<(), Error> {
        let entries = read_group(answer.unwrap_or(Value::Nil))?;
        jobs.extend(entries.into_iter().map(|entry| claimed((share.queue, share.shard), entry, started)));
        Ok(())
    }

    /// Makes sure, once per process, that the group exists and that rescuers know this worker's lease.
    async fn prepare(&self, share: Share<'_>) -> Result<(), Error> {
        let mark = (share.queue.clone(), share.shard, share.worker.clone());
        if self.prepared.lock().unwrap_or_else(PoisonError::into_inner).contains(&mark) {
            return Ok(());
        }
        self.prepare_anew(share).await?;
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(mark);
        Ok(())
    }

    async fn prepare_anew(&self, share: Share<'_>) -> Result<(), Error> {
        let Share { queue, worker, lease, shard, .. } = share;
        let keys = [self.keys.queues(shard), self.keys.target(shard, queue), self.keys.leases(shard, queue)];
        let call = Call::new(&self.scripts.prepare, &keys)
            .arg(member(queue))
            .arg(self.group(queue))
            .arg(worker.as_str())
            .arg(ms(lease));
        self.link.call(shard, call).await?;
        Ok(())
    }
}

/// A claim on a stream entry: the entry's id is its token.
pub(super) fn claimed((queue, shard): (&Queue, u16), entry: Entry, started: bool) -> Claimed {
    let Entry { token, data } = entry;
    let mut claimed = Claimed::read(data, started, |id| Lease {
        queue: queue.clone(),
        job: id.cloned().unwrap_or_else(|| nameless(&entry_id(token))),
        shard,
        token,
    });
    if claimed.body.as_ref().is_ok_and(|envelope| !envelope.tracked()) {
        claimed.lease.token.0 |= UNTRACKED;
    }
    claimed
}

/// How the names of bytes begin that have none.
pub(crate) const NAMELESS: &str = "invalid-";

/// A name for bytes that have none.
pub(super) fn nameless(mark: &str) -> JobId {
    JobId::new(&format!("{NAMELESS}{mark}")).unwrap_or_else(|_| JobId::generate())
}

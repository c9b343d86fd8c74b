//! List jobs without an index entry. Those that run long enough to extend their leases are recorded
//! then, so that they can be found and cancelled. Recording shorter ones would cost more than they
//! do.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use redis::{Pipeline, Value};
use tidemill_core::job::JobState;
use tidemill_core::store::JobInfo;
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue};

use super::list::is_unlocked;
use crate::connection::ScriptCall;
use crate::connection::reply::{array, int, text};
use crate::error::classify;
use crate::store::RedisStore;

/// How many records one script checks.
const PAGE_SIZE: usize = 256;

/// The recorded jobs of this process that have not ended.
#[derive(Debug, Default)]
pub(crate) struct RunningUntracked(Mutex<HashSet<JobId>>);

impl RunningUntracked {
    pub(super) fn add<'a>(&self, jobs: impl Iterator<Item = &'a JobId>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(jobs.cloned());
    }

    /// Removes and returns the recorded ones of `leases`.
    fn remove<'a>(&self, leases: impl Iterator<Item = &'a Lease>) -> Vec<&'a JobId> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_empty() {
            return Vec::new();
        }
        let ended = leases.filter(|lease| is_unlocked(lease) && running.remove(&lease.job));
        ended.map(|lease| &lease.job).collect()
    }
}

impl RedisStore {
    /// Removes the records of ended jobs. A record that stays expires with its lease.
    pub(super) async fn remove_untracked<'a>(
        &self,
        (shard, queue): (u16, &Queue),
        leases: impl Iterator<Item = &'a Lease>,
    ) {
        let jobs = self.running_untracked.remove(leases);
        if jobs.is_empty() {
            return;
        }
        let mut batch = Pipeline::new();
        for key in [self.keys.untracked(shard, queue), self.keys.cancelled(shard, queue)] {
            batch.cmd("HDEL").arg(key).arg(jobs.iter().map(|job| job.as_str()).collect::<Vec<_>>());
        }
        if let Err(error) = self.connections.pipeline(shard, &batch).await {
            tracing::debug!(%error, "cannot remove records of ended jobs yet");
        }
    }

    /// Requests cancellation of a running job without an index entry; returns whether there is one.
    pub(super) async fn cancel_untracked(&self, job: &JobId) -> Result<bool, Error> {
        let shard = self.keys.shard_of(job);
        for queue in self.list_queues_of(shard).await? {
            let keys = [self.keys.untracked(shard, &queue), self.keys.cancelled(shard, &queue)];
            let call = ScriptCall::new(&self.scripts.cancel_untracked, &keys);
            let call = call.arg(self.keys.channel()).arg(job.as_str());
            if int(&self.connections.call(shard, call).await?) == Some(1) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds a running job without an index entry.
    pub(crate) async fn find_untracked(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let (shard, now) = (self.keys.shard_of(job), tidemill_core::Clock::now(&*self.clock));
        for queue in self.list_queues_of(shard).await? {
            let mut batch = Pipeline::new();
            batch.cmd("HGET").arg(self.keys.untracked(shard, &queue)).arg(job.as_str());
            batch.cmd("HEXISTS").arg(self.keys.cancelled(shard, &queue)).arg(job.as_str());
            let reply =
                self.connections.pipeline(shard, &batch).await.map_err(|error| classify("HGET", error))?;
            let mut reply = reply.into_iter();
            let entry = reply.next().and_then(text).unwrap_or_default();
            let Some((until, worker)) = entry.split_once(' ') else { continue };
            if until.parse::<i64>().is_ok_and(|until| until > now.0) {
                let cancelling = reply.next().as_ref().and_then(int) == Some(1);
                let held_by = Some(worker.to_owned());
                let base = crate::inspect::empty_info(job.clone(), &queue, JobState::Running);
                return Ok(Some(JobInfo { held_by, cancelling, ..base }));
            }
        }
        Ok(None)
    }

    /// Removes records of workers that are gone.
    pub(super) async fn forget_untracked(&self, shard: u16, queue: &Queue) -> Result<u64, Error> {
        let keys = [self.keys.untracked(shard, queue), self.keys.cancelled(shard, queue)];
        let (mut cursor, mut forgotten) = ("0".to_owned(), 0);
        loop {
            let call = ScriptCall::new(&self.scripts.forget_untracked, &keys).arg(&cursor).arg(PAGE_SIZE);
            let mut reply: Vec<Value> = array(self.connections.call(shard, call).await?).unwrap_or_default();
            forgotten += reply.pop().as_ref().and_then(int).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            cursor = reply.pop().and_then(text).unwrap_or_else(|| "0".to_owned());
            if cursor == "0" {
                return Ok(forgotten);
            }
        }
    }

    async fn list_queues_of(&self, shard: u16) -> Result<Vec<Queue>, Error> {
        let queues = self.registered_queues(shard).await?;
        Ok(queues.into_iter().filter(|queue| queue.guarantee == Guarantee::AtMostOnce).collect())
    }
}

//! Jobs taken from a list that are in no index: taken, and that is all. Those that run for so long that their leases are extended
//! are noted then, so that they can be found and cancelled. Nothing is noted of shorter ones: that would cost more than they do.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use redis::{Pipeline, Value};
use tidemill_core::job::JobState;
use tidemill_core::store::JobInfo;
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue};

use super::list::is_unlocked;
use crate::connection::Call;
use crate::connection::reply::{array, int, text};
use crate::error::classify;
use crate::store::RedisStore;

/// How many notes one script looks at.
const PAGE: usize = 256;

/// The jobs of this process that were noted and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<HashSet<JobId>>);

impl Noted {
    pub(super) fn add<'a>(&self, jobs: impl Iterator<Item = &'a JobId>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(jobs.cloned());
    }

    /// Removes those of `leases` that were noted, and returns them.
    fn end<'a>(&self, leases: impl Iterator<Item = &'a Lease>) -> Vec<&'a JobId> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_empty() {
            return Vec::new();
        }
        let ended = leases.filter(|lease| is_unlocked(lease) && noted.remove(&lease.job));
        ended.map(|lease| &lease.job).collect()
    }
}

impl RedisStore {
    /// Removes the notes of jobs that have ended. A note that stays runs out with its lease.
    pub(super) async fn remove_notes<'a>(
        &self,
        (shard, queue): (u16, &Queue),
        leases: impl Iterator<Item = &'a Lease>,
    ) {
        let jobs = self.noted.end(leases);
        if jobs.is_empty() {
            return;
        }
        let mut batch = Pipeline::new();
        for key in [self.keys.untracked(shard, queue), self.keys.cancelled(shard, queue)] {
            batch.cmd("HDEL").arg(key).arg(jobs.iter().map(|job| job.as_str()).collect::<Vec<_>>());
        }
        if let Err(error) = self.link.pipeline(shard, &batch).await {
            tracing::debug!(%error, "notes of jobs that have ended stay for now");
        }
    }

    /// Asks for a job to be cancelled that is in no index and runs; says whether there is one.
    pub(super) async fn cancel_untracked(&self, job: &JobId) -> Result<bool, Error> {
        let shard = self.keys.shard_of(job);
        for queue in self.lists_of(shard).await? {
            let keys = [self.keys.untracked(shard, &queue), self.keys.cancelled(shard, &queue)];
            let call = Call::new(&self.scripts.cancel_untracked, &keys);
            let call = call.arg(self.keys.channel()).arg(job.as_str());
            if int(&self.link.call(shard, call).await?) == Some(1) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A job that is in no index and runs.
    pub(crate) async fn find_untracked(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let (shard, now) = (self.keys.shard_of(job), tidemill_core::Clock::now(&*self.clock));
        for queue in self.lists_of(shard).await? {
            let mut batch = Pipeline::new();
            batch.cmd("HGET").arg(self.keys.untracked(shard, &queue)).arg(job.as_str());
            batch.cmd("HEXISTS").arg(self.keys.cancelled(shard, &queue)).arg(job.as_str());
            let answer = self.link.pipeline(shard, &batch).await.map_err(|error| classify("HGET", error))?;
            let mut answer = answer.into_iter();
            let note = answer.next().and_then(text).unwrap_or_default();
            let Some((till, worker)) = note.split_once(' ') else { continue };
            if till.parse::<i64>().is_ok_and(|till| till > now.0) {
                let cancelling = answer.next().as_ref().and_then(int) == Some(1);
                let held_by = Some(worker.to_owned());
                let base = crate::inspect::blank(job.clone(), &queue, JobState::Running);
                return Ok(Some(JobInfo { held_by, cancelling, ..base }));
            }
        }
        Ok(None)
    }

    /// Removes notes of workers that are gone.
    pub(super) async fn forget_untracked(&self, shard: u16, queue: &Queue) -> Result<u64, Error> {
        let keys = [self.keys.untracked(shard, queue), self.keys.cancelled(shard, queue)];
        let (mut cursor, mut forgotten) = ("0".to_owned(), 0);
        loop {
            let call = Call::new(&self.scripts.forget_untracked, &keys).arg(&cursor).arg(PAGE);
            let mut answer: Vec<Value> = array(self.link.call(shard, call).await?).unwrap_or_default();
            forgotten += answer.pop().as_ref().and_then(int).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            cursor = answer.pop().and_then(text).unwrap_or_else(|| "0".to_owned());
            if cursor == "0" {
                return Ok(forgotten);
            }
        }
    }

    async fn lists_of(&self, shard: u16) -> Result<Vec<Queue>, Error> {
        let queues = self.names_of_queues(shard).await?;
        Ok(queues.into_iter().filter(|queue| queue.guarantee == Guarantee::AtMostOnce).collect())
    }
}

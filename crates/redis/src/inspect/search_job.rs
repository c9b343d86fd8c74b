//! Looking for a job without an index entry among the ready jobs.

use std::collections::BTreeSet;

use tidemill_core::job::JobState;
use tidemill_core::store::{JobInfo, ListJobsParams, Page};
use tidemill_core::{Error, JobId, Queue};

use crate::connection::breaker::SHARD_TIMEOUT;
use crate::store::RedisStore;

/// The size of a page, and how many pages of one queue are read.
const PAGE_JOBS: usize = 500;
const MAX_PAGES: usize = 20;

impl RedisStore {
    /// A job that another program has added to a stream or a list. The first claim indexes it.
    pub(crate) async fn search_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        // Jobs of runs are added by scripts, which index them.
        if job.is_run_internal() {
            return Ok(None);
        }
        let known = self.each_shard(SHARD_TIMEOUT, |shard| self.registered_queues(shard)).await.any()?;
        let queues: BTreeSet<Queue> = known.replies.into_iter().flat_map(|(_, queues)| queues).collect();
        for queue in &queues {
            if let Some(info) = self.search_ready(job, queue).await? {
                return Ok(Some(info));
            }
        }
        Ok(None)
    }

    async fn search_ready(&self, job: &JobId, queue: &Queue) -> Result<Option<JobInfo>, Error> {
        let mut cursor = None;
        for _ in 0..MAX_PAGES.max(usize::from(self.keys.shards())) {
            let list = ListJobsParams { queue, state: JobState::Ready, cursor, limit: PAGE_JOBS };
            let Page { items, next } = self.list_jobs(list).await?;
            if let Some(info) = items.into_iter().find(|info| info.job == *job) {
                return Ok(Some(info));
            }
            if next.is_none() {
                break;
            }
            cursor = next;
        }
        Ok(None)
    }
}

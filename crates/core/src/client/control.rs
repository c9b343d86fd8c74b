//! Operations on jobs by id that are safe to repeat; they are repeated while the store does not
//! answer.

use super::Client;
use crate::job::JobState;
use crate::name::JobId;
use crate::retry::{Answered, repeat_until_answered, until_answered};
use crate::store::{Cancelled, Deleted, Error, JobInfo};

impl Client {
    /// Cancels a job. A waiting job is removed. For a running one the cancellation is requested:
    /// its worker is notified at once. If an earlier call got no answer and the job is gone, it
    /// counts as removed by that call.
    ///
    /// # Errors
    /// [`Error::Invalid`] for tasks of workflow runs; otherwise the store's error.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have cancelled the job.
    pub async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        let Answered { value, after_unknown } =
            repeat_until_answered(self.store.clock(), || self.store.cancel(job)).await?;
        Ok(match value {
            Cancelled::NotFound | Cancelled::Ended(JobState::Cancelled) if after_unknown => {
                Cancelled::Removed
            }
            cancelled => cancelled,
        })
    }

    /// Deletes a chain with its job in any state, its record, its dead letter and its key, unless
    /// another job waits for it. If an earlier call got no answer and the chain is gone, it counts
    /// as deleted by that call.
    ///
    /// # Errors
    /// [`Error::Invalid`] for jobs of workflow runs; otherwise the store's error.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have deleted the chain.
    pub async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        let chain = chain.chain();
        let Answered { value, after_unknown } =
            repeat_until_answered(self.store.clock(), || self.store.delete(&chain)).await?;
        Ok(match value {
            Deleted::NotFound if after_unknown => Deleted::Yes,
            deleted => deleted,
        })
    }

    /// The current state of a job, or of the current job of a chain; `None` if it is not in the
    /// store. A job that has ended is kept only if it keeps its result or is dead.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn job_info(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        until_answered(self.store.clock(), || self.store.get_job(job)).await
    }

    /// Like [`job_info`](Self::job_info), and on Redis also finds a job that another program has
    /// added and no worker has claimed yet. For that it reads up to 10,000 ready jobs of each queue, if
    /// the job is not found otherwise: for people, not for programs that ask often.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have registered queues, as
    /// [`discover_queues`](Self::discover_queues) does.
    pub async fn search_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        if let Some(info) = self.job_info(job).await? {
            return Ok(Some(info));
        }
        self.discover_queues().await?;
        until_answered(self.store.clock(), || self.store.search_job(job)).await
    }
}

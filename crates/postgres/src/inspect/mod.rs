//! The verbs for operators: single jobs, pages of jobs, and the health of the server.

mod checkup;
mod get_job;
mod list_jobs;

use async_trait::async_trait;
use tidemill_core::store::{Checkup, Inspect, JobInfo, ListJobsParams, Page};
use tidemill_core::{Error, JobId};

use crate::store::PostgresStore;
pub(crate) use get_job::MAX_NAMED_BLOCKERS;

#[async_trait]
impl Inspect for PostgresStore {
    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.inner.get_job(job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        self.inner.list_jobs(list).await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.inner.checkup().await
    }
}

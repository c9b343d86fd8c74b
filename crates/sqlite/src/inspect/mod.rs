//! The verbs for operators: single jobs, pages of jobs, and the health of the store.

mod checkup;
mod get_job;
mod list_jobs;

use async_trait::async_trait;
use tidemill_core::store::{Checkup, Inspect, JobInfo, ListJobsParams, Page};
use tidemill_core::{Error, JobId};

use crate::store::SqliteStore;
pub(crate) use get_job::{find_record, get_in};

#[async_trait]
impl Inspect for SqliteStore {
    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        get_job::get_job(self, job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        list_jobs::list_jobs(self, list).await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        checkup::checkup(self).await
    }
}

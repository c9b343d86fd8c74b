//! Inspection: one job, pages of jobs, the checkup of the server, and damaged keys.

pub(crate) mod checkup;
pub(crate) mod damage;
mod fix;
mod get_job;
mod indexed_keys;
mod list_jobs;
pub(crate) mod record;
mod search_job;

use async_trait::async_trait;
use tidemill_core::store::{Checkup, Finding, Inspect, JobInfo, ListJobsParams, Page};
use tidemill_core::{Error, JobId};

use crate::store::RedisStore;
pub(crate) use list_jobs::empty_info;

#[async_trait]
impl Inspect for RedisStore {
    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.find_job(job).await
    }

    async fn search_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.search_job(job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        self.list_jobs(list).await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.run_checkup().await
    }

    async fn fix(&self) -> Result<Vec<Finding>, Error> {
        self.fix_damage().await
    }
}

//! `list_jobs`: pages of jobs in one state.

use bytes::Bytes;
use tidemill_core::job::JobState;
use tidemill_core::store::{JobInfo, ListJobsParams, Page};
use tidemill_core::{Error, JobId, Timestamp};
use tokio_postgres::Row;

use super::MAX_NAMED_BLOCKERS;
use crate::Inner;
use crate::cursor::{Cursor, page};
use crate::jobs::{job_id, job_id_from_row};
use crate::sql::{LIST_JOBS_BLOCKED, LIST_JOBS_DEAD, LIST_JOBS_RUNNING, LIST_JOBS_WAITING};

impl Inner {
    pub(crate) async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        let Some(number) = self.find_queue_id(list.queue).await? else { return Ok(Page::default()) };
        let Cursor { sort_key, seq } = Cursor::parse(list.cursor.as_deref())?;
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        let later = list.state == JobState::Scheduled;
        let rows = match list.state {
            JobState::Scheduled | JobState::Ready => {
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                    [&number, &sort_key, &seq, &limit, &later];
                self.pool.query(&LIST_JOBS_WAITING, &params).await?
            }
            JobState::Blocked => {
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                    [&number, &sort_key, &seq, &limit, &MAX_NAMED_BLOCKERS];
                self.pool.query(&LIST_JOBS_BLOCKED, &params).await?
            }
            JobState::Running => {
                self.pool.query(&LIST_JOBS_RUNNING, &[&number, &sort_key, &seq, &limit]).await?
            }
            JobState::Dead => self.pool.query(&LIST_JOBS_DEAD, &[&number, &sort_key, &seq, &limit]).await?,
            ended => return Err(Error::Invalid(format!("jobs that are {ended} are not listed"))),
        };
        page(&rows, list.limit, "place", |row| info_from_row(&list, row))
    }
}

fn info_from_row(list: &ListJobsParams<'_>, row: &Row) -> Result<JobInfo, Error> {
    Ok(JobInfo {
        job: job_id_from_row(row)?,
        queue: Some(list.queue.clone()),
        state: list.state,
        data: Bytes::copy_from_slice(row.get("envelope")),
        due: (list.state == JobState::Scheduled).then(|| Timestamp(row.get("place"))),
        held_by: row.get("worker"),
        cancelling: row.get("cancelling"),
        waits_for: waits_for(row)?,
        record: None,
    })
}

fn waits_for(row: &Row) -> Result<Vec<JobId>, Error> {
    let chains: Option<Vec<&str>> = row.get("waits_for");
    chains.unwrap_or_default().into_iter().map(job_id).collect()
}

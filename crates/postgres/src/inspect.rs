//! Looking at jobs and queues.

use bytes::Bytes;
use tidemill_core::job::JobState;
use tidemill_core::store::{COUNT_CAP, JobInfo, ListJobsParams, Page, QueueInfo};
use tidemill_core::{Error, JobId, Timestamp};
use tokio_postgres::Row;

use crate::Inner;
use crate::cursor::{Cursor, page};
use crate::found::Found;
use crate::jobs::{job_at, job_id, queue};
use crate::sql::{GET, LIST_BLOCKED, LIST_LETTERS, LIST_QUEUES, LIST_RUNNING, LIST_WAITING};

/// How many of the chains that a job waits for are named.
pub(crate) const NAMED: i64 = 100;

impl Inner {
    pub(crate) async fn get(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let rows = self.pool.query(&GET, &[&job.chain().as_str(), &NAMED]).await?;
        rows.first().map(|row| Found::read(row).into_info()).transpose()
    }

    pub(crate) async fn list(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        let Some(number) = self.find_number(list.queue).await? else { return Ok(Page::default()) };
        let Cursor { place, seq } = Cursor::read(list.cursor.as_deref())?;
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        let later = list.state == JobState::Scheduled;
        let rows = match list.state {
            JobState::Scheduled | JobState::Ready => {
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                    [&number, &place, &seq, &limit, &later];
                self.pool.query(&LIST_WAITING, &params).await?
            }
            JobState::Blocked => {
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                    [&number, &place, &seq, &limit, &NAMED];
                self.pool.query(&LIST_BLOCKED, &params).await?
            }
            JobState::Running => self.pool.query(&LIST_RUNNING, &[&number, &place, &seq, &limit]).await?,
            JobState::Dead => self.pool.query(&LIST_LETTERS, &[&number, &place, &seq, &limit]).await?,
            ended => return Err(Error::Invalid(format!("jobs that are {ended} are not listed"))),
        };
        page(&rows, list.limit, "place", |row| read_listed(&list, row))
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        let cap = i64::try_from(COUNT_CAP).unwrap_or(i64::MAX);
        let rows = self.pool.query(&LIST_QUEUES, &[&cap]).await?;
        rows.iter().map(read_queue).collect()
    }
}

fn read_listed(list: &ListJobsParams<'_>, row: &Row) -> Result<JobInfo, Error> {
    Ok(JobInfo {
        job: job_at(row)?,
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

fn read_queue(row: &Row) -> Result<QueueInfo, Error> {
    let count = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Ok(QueueInfo {
        queue: queue(row.get("name"), row.get("delivery"))?,
        ready: count("ready"),
        scheduled: count("scheduled"),
        blocked: count("blocked"),
        running: count("running"),
        dead: count("dead"),
        paused: row.get("paused"),
        problems: Vec::new(),
    })
}

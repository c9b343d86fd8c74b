//! The row of one job, whichever driver has read it.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::job::JobState;
use tidemill_core::store::{JobInfo, JobRecord};
use tidemill_core::{Error, JobId, Timestamp};
use tokio_postgres::Row;

use crate::jobs::{job_id, job_id_at_step, queue};

/// The columns of `inspect/get_job.sql`.
pub(crate) struct JobRow {
    id: String,
    step: i32,
    name: String,
    delivery: i16,
    state: i16,
    due: i64,
    finished: Option<i64>,
    keep: Option<i64>,
    error: Option<Vec<u8>>,
    envelope: Vec<u8>,
    worker: Option<String>,
    cancelling: Option<bool>,
    later: bool,
    waits_for: Vec<String>,
}

impl JobRow {
    pub(crate) fn from_row(row: &Row) -> Self {
        Self {
            id: row.get("id"),
            step: row.get("step"),
            name: row.get("name"),
            delivery: row.get("delivery"),
            state: row.get("state"),
            due: row.get("due"),
            finished: row.get("finished"),
            keep: row.get("keep"),
            error: row.get("error"),
            envelope: row.get("envelope"),
            worker: row.get("worker"),
            cancelling: row.get("cancelling"),
            later: row.get("later"),
            waits_for: row.get("waits_for"),
        }
    }

    #[cfg(feature = "sqlx")]
    pub(crate) fn from_sqlx_row(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
        use sqlx::Row;
        Ok(Self {
            id: row.try_get("id")?,
            step: row.try_get("step")?,
            name: row.try_get("name")?,
            delivery: row.try_get("delivery")?,
            state: row.try_get("state")?,
            due: row.try_get("due")?,
            finished: row.try_get("finished")?,
            keep: row.try_get("keep")?,
            error: row.try_get("error")?,
            envelope: row.try_get("envelope")?,
            worker: row.try_get("worker")?,
            cancelling: row.try_get("cancelling")?,
            later: row.try_get("later")?,
            waits_for: row.try_get("waits_for")?,
        })
    }

    pub(crate) fn into_info(self) -> Result<JobInfo, Error> {
        let job = job_id_at_step(&self.id, self.step)?;
        let state = self.state(&job)?;
        let waits_for = self.waits_for.iter().map(|chain| job_id(chain)).collect::<Result<_, _>>()?;
        let info = JobInfo {
            job: job.clone(),
            queue: None,
            state,
            data: Bytes::new(),
            due: (state == JobState::Scheduled).then_some(Timestamp(self.due)),
            held_by: self.worker.clone(),
            cancelling: self.cancelling.unwrap_or(false),
            waits_for,
            record: None,
        };
        if matches!(state, JobState::Done | JobState::Cancelled) {
            return Ok(JobInfo {
                job: job.chain(),
                record: Some(self.into_record(job.chain(), state)?),
                ..info
            });
        }
        let queue = queue(&self.name, self.delivery)?;
        Ok(JobInfo { queue: Some(queue), data: self.envelope.into(), ..info })
    }

    fn state(&self, job: &JobId) -> Result<JobState, Error> {
        Ok(match self.state {
            0 if self.worker.is_some() => JobState::Running,
            0 if self.later => JobState::Scheduled,
            0 => JobState::Ready,
            1 => JobState::Blocked,
            2 => JobState::Dead,
            3 => JobState::Done,
            4 => JobState::Cancelled,
            other => return Err(Error::Corrupt(format!("job {job} has the state {other}"))),
        })
    }

    fn into_record(self, job: JobId, state: JobState) -> Result<JobRecord, Error> {
        let (Some(finished), Some(keep)) = (self.finished, self.keep) else {
            return Err(Error::Corrupt(format!("the record of job {job} has no time")));
        };
        Ok(JobRecord {
            job,
            state,
            output: self.envelope.into(),
            error: self.error.map(|text| String::from_utf8_lossy(&text).into_owned()),
            finished_at: Timestamp(finished),
            keep: Duration::from_millis(u64::try_from(keep).unwrap_or(0)),
        })
    }
}

//! `get_job`: reads one job or its record.

use rusqlite::params;
use tidemill_core::job::JobState;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::{JobInfo, JobRecord};
use tidemill_core::{Error, Timestamp};

use crate::chains::waits_for;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::jobs::{JobRow, JobRowState, find};
use crate::row;
use crate::store::SqliteStore;

/// The record of a chain, until it expires.
const FIND_RECORD: &str = "
    SELECT state, error, finished, expires, output FROM tidemill_records WHERE job = ?1
        AND expires > ?2";

pub(crate) async fn get_job(store: &SqliteStore, job: &JobId) -> Result<Option<JobInfo>, Error> {
    let job = job.clone();
    store.read(move |tx| get_in(tx, &job)).await
}

/// Reads a job as a transaction sees it.
pub(crate) fn get_in(tx: &Tx<'_>, job: &JobId) -> Result<Option<JobInfo>, RequestError> {
    match find_info(tx, job)? {
        Some(info) => Ok(Some(info)),
        None => Ok(find_record(tx, job)?.map(info_from_record)),
    }
}

fn find_info(tx: &Tx<'_>, job: &JobId) -> Result<Option<JobInfo>, RequestError> {
    let row = find(tx, job)?.filter(|row| !row.is_expired_at_most_once(tx.now));
    let Some(JobRow { seq, queue, job, due, state, body, .. }) = row else { return Ok(None) };
    let info = |state| new_info(job, Some(queue), state, body);
    Ok(Some(match state {
        JobRowState::Dead => info(JobState::Dead),
        JobRowState::Running { by, cancelling, .. } => {
            JobInfo { held_by: Some(by), cancelling, ..info(JobState::Running) }
        }
        JobRowState::Blocked => JobInfo { waits_for: waits_for(tx, seq)?, ..info(JobState::Blocked) },
        JobRowState::Waiting if due > tx.now => JobInfo { due: Some(due), ..info(JobState::Scheduled) },
        JobRowState::Waiting => info(JobState::Ready),
    }))
}

/// The record of the chain of a job, until it expires.
pub(crate) fn find_record(tx: &Tx<'_>, job: &JobId) -> Result<Option<JobRecord>, RequestError> {
    let mut find = tx.connection.prepare_cached(FIND_RECORD)?;
    let job = job.chain();
    let mut rows = find.query(params![job.as_str(), tx.now.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let state = row.get_ref(0)?.as_str()?.parse::<JobState>();
    let state = state.map_err(|error| Error::Corrupt(error.to_string()))?;
    let (finished_at, expires) = (Timestamp(row.get(2)?), Timestamp(row.get(3)?));
    let (error, output) = (row.get(1)?, row::body(row, 4)?);
    Ok(Some(JobRecord { job, state, output, error, finished_at, keep: finished_at.until(expires) }))
}

fn info_from_record(record: JobRecord) -> JobInfo {
    let info = new_info(record.job.clone(), None, record.state, bytes::Bytes::new());
    JobInfo { record: Some(record), ..info }
}

pub(super) fn new_info(job: JobId, queue: Option<Queue>, state: JobState, data: bytes::Bytes) -> JobInfo {
    JobInfo {
        job,
        queue,
        state,
        data,
        due: None,
        held_by: None,
        cancelling: false,
        waits_for: Vec::new(),
        record: None,
    }
}

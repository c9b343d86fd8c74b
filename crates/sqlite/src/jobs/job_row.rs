//! The row of a job: lookup by the id of its chain, and removal from the table of its state.

use bytes::Bytes;
use rusqlite::Row;
use tidemill_core::Timestamp;
use tidemill_core::name::{Guarantee, JobId, Queue};
use tidemill_core::wake::Wake;

use crate::connection::Tx;
use crate::error::RequestError;
use crate::{chains, row};

/// One job by the id of its chain, whatever its state.
const FIND_JOB: &str = "
    SELECT j.seq, j.queue, q.name, q.delivery, j.job, j.due, j.died, r.until, r.worker,
        r.cancelling, b.open, j.body
    FROM tidemill_jobs j
    LEFT JOIN tidemill_running r ON r.seq = j.seq
    LEFT JOIN tidemill_blocked b ON b.seq = j.seq
    LEFT JOIN tidemill_queues q ON q.id = j.queue
    WHERE j.id = ?1";

/// A job as it is in the database.
#[derive(Debug)]
pub(crate) struct JobRow {
    /// Its number, which is also the number of its chain.
    pub(crate) seq: i64,
    /// The number of its queue.
    pub(crate) queue_number: i64,
    pub(crate) queue: Queue,
    /// Its id, with the step that its chain is at.
    pub(crate) job: JobId,
    pub(crate) due: Timestamp,
    pub(crate) state: JobRowState,
    pub(crate) body: Bytes,
}

/// Which of the four states a job is in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JobRowState {
    Blocked,
    Waiting,
    Running { until: Timestamp, by: String, cancelling: bool },
    Dead,
}

/// The current job of the chain of `job`.
pub(crate) fn find(tx: &Tx<'_>, job: &JobId) -> Result<Option<JobRow>, RequestError> {
    let mut find = tx.connection.prepare_cached(FIND_JOB)?;
    let mut rows = find.query([job.chain().as_str()])?;
    rows.next()?.map(JobRow::from_row).transpose()
}

impl JobRow {
    fn from_row(row: &Row<'_>) -> Result<Self, RequestError> {
        let seq = row.get(0)?;
        Ok(Self {
            seq,
            queue_number: row.get(1)?,
            queue: row::queue(row, 2)?,
            job: row::job_id(row, 4, seq)?,
            due: Timestamp(row.get(5)?),
            state: JobRowState::from_row(row)?,
            body: row::body(row, 11)?,
        })
    }

    /// Whether it is an at-most-once job whose lease has expired. Such a job counts as deleted.
    pub(crate) fn is_expired_at_most_once(&self, now: Timestamp) -> bool {
        let expired = matches!(self.state, JobRowState::Running { until, .. } if until <= now);
        expired && self.queue.guarantee == Guarantee::AtMostOnce
    }

    /// Removes it from the table of its state. Its row in `jobs` stays; the caller decides what
    /// happens to it.
    pub(crate) fn detach(&self, tx: &Tx<'_>) -> Result<(), RequestError> {
        let connection = tx.connection;
        match self.state {
            JobRowState::Blocked => chains::stop_waiting(tx, self.seq)?,
            JobRowState::Waiting => {
                let delete = sql!("jobs/delete_waiting");
                connection.prepare_cached(delete)?.execute([self.queue_number, self.due.0, self.seq])?;
            }
            JobRowState::Running { .. } => {
                let delete = sql!("jobs/delete_running");
                connection.prepare_cached(delete)?.execute([self.seq])?;
            }
            JobRowState::Dead => {}
        }
        Ok(())
    }

    /// Deletes it and notifies the jobs that wait for its chain.
    pub(crate) fn delete(&self, tx: &mut Tx<'_>) -> Result<(), RequestError> {
        self.detach(tx)?;
        delete_row(tx, self.seq)?;
        tx.wakes.add(Wake::Finished(self.job.chain()));
        Ok(())
    }
}

impl JobRowState {
    fn from_row(row: &Row<'_>) -> Result<Self, RequestError> {
        if row.get::<_, Option<i64>>(6)?.is_some() {
            return Ok(Self::Dead);
        }
        if let Some(until) = row.get(7)? {
            let (by, cancelling) = (row.get(8)?, row.get(9)?);
            return Ok(Self::Running { until: Timestamp(until), by, cancelling });
        }
        Ok(if row.get::<_, Option<i64>>(10)?.is_some() { Self::Blocked } else { Self::Waiting })
    }
}

/// Deletes the row of a detached job and notifies the jobs that wait for its chain.
pub(crate) fn delete_row(tx: &mut Tx<'_>, seq: i64) -> Result<(), RequestError> {
    chains::close_removed(tx, seq)?;
    tx.connection.prepare_cached(sql!("jobs/delete"))?.execute([seq])?;
    Ok(())
}

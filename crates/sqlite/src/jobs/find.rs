//! One job, wherever it is: looked up by the id of its chain, and taken out of its place.

use bytes::Bytes;
use rusqlite::Row;
use tidemill_core::Timestamp;
use tidemill_core::name::{Guarantee, JobId, Queue};
use tidemill_core::wake::Wake;

use crate::call::Tx;
use crate::chains;
use crate::error::Failure;
use crate::row;

/// A job as it is in the database.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its number, which is its chain's.
    pub(crate) seq: i64,
    /// Its queue's number.
    pub(crate) line: i64,
    pub(crate) queue: Queue,
    /// Its id, with the step its chain is at.
    pub(crate) job: JobId,
    pub(crate) due: Timestamp,
    pub(crate) place: Place,
    pub(crate) body: Bytes,
}

/// Which of the four places it is in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Blocked,
    Waiting,
    Running { until: Timestamp, by: String, cancelling: bool },
    Dead,
}

/// The job that the chain of `job` is at.
pub(crate) fn find(tx: &Tx<'_>, job: &JobId) -> Result<Option<Found>, Failure> {
    let mut find = tx.connection.prepare_cached(include_str!("../../sql/jobs/find.sql"))?;
    let mut rows = find.query([job.chain().as_str()])?;
    rows.next()?.map(found).transpose()
}

fn found(row: &Row<'_>) -> Result<Found, Failure> {
    let seq = row.get(0)?;
    Ok(Found {
        seq,
        line: row.get(1)?,
        queue: row::queue(row, 2)?,
        job: row::job_id(row, 4, seq)?,
        due: Timestamp(row.get(5)?),
        place: place(row)?,
        body: row::body(row, 11)?,
    })
}

fn place(row: &Row<'_>) -> Result<Place, Failure> {
    if row.get::<_, Option<i64>>(6)?.is_some() {
        return Ok(Place::Dead);
    }
    if let Some(until) = row.get(7)? {
        let (by, cancelling) = (row.get(8)?, row.get(9)?);
        return Ok(Place::Running { until: Timestamp(until), by, cancelling });
    }
    Ok(if row.get::<_, Option<i64>>(10)?.is_some() { Place::Blocked } else { Place::Waiting })
}

impl Found {
    /// Whether it was taken at most once and its taker never came back: from then on it is as if it had never been.
    pub(crate) fn is_forgotten(&self, now: Timestamp) -> bool {
        let expired = matches!(self.place, Place::Running { until, .. } if until <= now);
        expired && self.queue.guarantee == Guarantee::AtMostOnce
    }

    /// Takes it out of its place. What becomes of it then is the caller's business.
    pub(crate) fn vacate(&self, tx: &Tx<'_>) -> Result<(), Failure> {
        let connection = tx.connection;
        match self.place {
            Place::Blocked => chains::stop_waiting(tx, self.seq)?,
            Place::Waiting => {
                let leave = include_str!("../../sql/jobs/leave.sql");
                connection.prepare_cached(leave)?.execute([self.line, self.due.0, self.seq])?;
            }
            Place::Running { .. } => {
                let release = include_str!("../../sql/jobs/release.sql");
                connection.prepare_cached(release)?.execute([self.seq])?;
            }
            Place::Dead => {}
        }
        Ok(())
    }

    /// Removes it with everything it has, telling those who wait for its chain.
    pub(crate) fn remove(&self, tx: &mut Tx<'_>) -> Result<(), Failure> {
        self.vacate(tx)?;
        remove_row(tx, self.seq)?;
        tx.announcements.add(Wake::Finished(self.job.chain()));
        Ok(())
    }
}

/// Removes a job that is in no place any more, telling those who wait for its chain.
pub(crate) fn remove_row(tx: &mut Tx<'_>, seq: i64) -> Result<(), Failure> {
    chains::close_removed(tx, seq)?;
    tx.connection.prepare_cached(include_str!("../../sql/jobs/finish.sql"))?.execute([seq])?;
    Ok(())
}

//! The six changes that can end a claim, applied to a detached job.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tidemill_core::chain::Blocker;
use tidemill_core::dead_letter::DeadLetter;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::settle::Change;
use tidemill_core::store::{JobRecord, Verdict};
use tidemill_core::wake::Wake;

use super::job_row::delete_row;
use super::waiting::insert_and_announce;
use crate::chains;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::queues::NumberedQueue;
use crate::runs::{self, PendingTasks};

/// Makes a dead letter of a job whose lease was just deleted.
const BURY_JOB: &str = "UPDATE tidemill_jobs SET body = ?2, died = ?3 WHERE seq = ?1";

/// Stores the record of a chain, with its dedup key. An older record of the same id has expired,
/// or the chain could not have been started. The job's row still exists.
const INSERT_RECORD: &str = "
    INSERT OR REPLACE INTO tidemill_records (job, state, error, finished, expires, output, key,
        begun)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6,
        (SELECT key FROM tidemill_jobs WHERE seq = ?7), (SELECT begun FROM tidemill_jobs
        WHERE seq = ?7))";

/// A job that was removed from the table of its state.
pub(crate) struct DetachedJob<'l> {
    pub(crate) seq: i64,
    pub(crate) job: &'l JobId,
    pub(crate) queue: &'l Queue,
    /// Whether it is to be cancelled. Then it is deleted instead of put back.
    pub(crate) cancelling: bool,
}

impl DetachedJob<'_> {
    /// Applies the change. Runs that receive events from it are added to `tasks`.
    pub(crate) fn apply(
        &self,
        tx: &mut Tx<'_>,
        change: &Change,
        tasks: &mut PendingTasks,
    ) -> Result<Verdict, RequestError> {
        if let Change::Commit(commit) = change {
            delete_row(tx, self.seq)?;
            return runs::commit(tx, commit, tasks);
        }
        self.change(tx, change, tasks)?;
        Ok(Verdict::Accepted)
    }

    fn change(&self, tx: &mut Tx<'_>, change: &Change, tasks: &mut PendingTasks) -> Result<(), RequestError> {
        match change {
            Change::Requeue { .. } | Change::Continue(_) if self.cancelling => {
                tx.wakes.add(Wake::Finished(self.job.chain()));
                delete_row(tx, self.seq)?;
                match change {
                    Change::Requeue { envelope, .. } => runs::notify_removed(tx, self.job, envelope, tasks),
                    _ => Ok(()),
                }
            }
            Change::Finish(None) | Change::Commit(_) => delete_row(tx, self.seq),
            Change::Deliver(delivery) => {
                delete_row(tx, self.seq)?;
                runs::deliver_one(tx, delivery, tasks).map(drop)
            }
            Change::Finish(Some(record)) => self.finish(tx, record),
            Change::Continue(step) => chains::continue_chain(tx, self.seq, step),
            Change::Requeue { envelope, delay } => self.requeue(tx, envelope, *delay),
            Change::Bury(letter) => self.bury(tx, letter),
        }
    }

    fn finish(&self, tx: &mut Tx<'_>, record: &JobRecord) -> Result<(), RequestError> {
        insert_record(tx, record, Some(self.seq))?;
        tx.connection.prepare_cached(sql!("jobs/delete"))?.execute([self.seq])?;
        chains::close(tx, self.seq, || Blocker::notice(record))?;
        tx.wakes.add(Wake::Finished(record.job.clone()));
        Ok(())
    }

    fn requeue(&self, tx: &mut Tx<'_>, envelope: &Bytes, delay: Duration) -> Result<(), RequestError> {
        let due = tx.now.after(delay);
        let mut requeue = tx.connection.prepare_cached(sql!("jobs/requeue"))?;
        let number =
            requeue.query_row(params![self.seq, &envelope[..], due.0], |row| row.get(0)).optional()?;
        // A lease without its job is a damaged file. Deleting the lease was all that could be done.
        let Some(number) = number else { return Ok(()) };
        insert_and_announce(tx, &NumberedQueue { queue: self.queue, number }, due, self.seq)
    }

    /// Makes the job a dead letter and wakes the waiters for its end: the record of a dead job is
    /// its letter.
    fn bury(&self, tx: &mut Tx<'_>, letter: &DeadLetter) -> Result<(), RequestError> {
        let mut bury = tx.connection.prepare_cached(BURY_JOB)?;
        bury.execute(params![self.seq, &letter.bytes[..], tx.now.0])?;
        tx.wakes.add(Wake::Finished(self.job.chain()));
        Ok(())
    }
}

/// Inserts the record of a chain, with the dedup key of the job that has this number, if any.
pub(crate) fn insert_record(tx: &Tx<'_>, record: &JobRecord, seq: Option<i64>) -> Result<(), RequestError> {
    let mut insert = tx.connection.prepare_cached(INSERT_RECORD)?;
    insert.execute(params![
        record.job.as_str(),
        record.state.to_string(),
        record.error,
        record.finished_at.0,
        tx.now.after(record.keep).0,
        &record.output[..],
        seq,
    ])?;
    Ok(())
}

//! What becomes of a job that has just been taken out of its place: the six changes there are.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tidemill_core::chain::Blocker;
use tidemill_core::dead_letter::DeadLetter;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::settle::Change;
use tidemill_core::store::{JobRecord, Verdict};
use tidemill_core::wake::Wake;

use super::find::remove_row;
use super::queue::{self, Line};
use crate::call::Tx;
use crate::chains;
use crate::error::Failure;
use crate::runs::{self, Wanted};

/// A job that is in no place at the moment.
pub(crate) struct Freed<'l> {
    pub(crate) seq: i64,
    pub(crate) job: &'l JobId,
    pub(crate) queue: &'l Queue,
    /// Whether somebody wants it cancelled: then it is not put back.
    pub(crate) cancelling: bool,
}

impl Freed<'_> {
    /// Does the change. Runs that are told something by it get their tasks when the caller says so.
    pub(crate) fn become_of(
        &self,
        tx: &mut Tx<'_>,
        change: &Change,
        wanted: &mut Wanted,
    ) -> Result<Verdict, Failure> {
        if let Change::Commit(commit) = change {
            remove_row(tx, self.seq)?;
            return runs::commit(tx, commit, wanted);
        }
        self.change(tx, change, wanted)?;
        Ok(Verdict::Accepted)
    }

    fn change(&self, tx: &mut Tx<'_>, change: &Change, wanted: &mut Wanted) -> Result<(), Failure> {
        match change {
            Change::Requeue { .. } | Change::Continue(_) if self.cancelling => {
                tx.announcements.add(Wake::Finished(self.job.chain()));
                remove_row(tx, self.seq)?;
                match change {
                    Change::Requeue { envelope, .. } => runs::tell_of_removed(tx, self.job, envelope, wanted),
                    _ => Ok(()),
                }
            }
            Change::Finish(None) | Change::Commit(_) => remove_row(tx, self.seq),
            Change::Deliver(delivery) => {
                remove_row(tx, self.seq)?;
                runs::deliver_one(tx, delivery, wanted).map(drop)
            }
            Change::Finish(Some(record)) => self.close(tx, record),
            Change::Continue(step) => chains::advance(tx, self.seq, step),
            Change::Requeue { envelope, delay } => self.requeue(tx, envelope, *delay),
            Change::Bury(letter) => self.bury(tx, letter),
        }
    }

    fn close(&self, tx: &mut Tx<'_>, record: &JobRecord) -> Result<(), Failure> {
        keep_record(tx, record, Some(self.seq))?;
        tx.connection.prepare_cached(include_str!("../../sql/jobs/finish.sql"))?.execute([self.seq])?;
        chains::close(tx, self.seq, || Blocker::notice(record))?;
        tx.announcements.add(Wake::Finished(record.job.clone()));
        Ok(())
    }

    fn requeue(&self, tx: &mut Tx<'_>, envelope: &Bytes, delay: Duration) -> Result<(), Failure> {
        let due = tx.now.after(delay);
        let mut requeue = tx.connection.prepare_cached(include_str!("../../sql/jobs/requeue.sql"))?;
        let number =
            requeue.query_row(params![self.seq, &envelope[..], due.0], |row| row.get(0)).optional()?;
        // A lease without its job is a damaged file; ending it was all there is to do.
        let Some(number) = number else { return Ok(()) };
        queue::arrive(tx, &Line { queue: self.queue, number }, due, self.seq)
    }

    /// Whoever waits for the job's end hears of it: a dead job's record is its letter.
    fn bury(&self, tx: &mut Tx<'_>, letter: &DeadLetter) -> Result<(), Failure> {
        let mut bury = tx.connection.prepare_cached(include_str!("../../sql/letters/bury.sql"))?;
        bury.execute(params![self.seq, &letter.bytes[..], tx.now.0])?;
        tx.announcements.add(Wake::Finished(self.job.chain()));
        Ok(())
    }
}

/// Keeps how a chain ended, with the key of the job that has this number, if there is one.
pub(crate) fn keep_record(tx: &Tx<'_>, record: &JobRecord, seq: Option<i64>) -> Result<(), Failure> {
    let mut keep = tx.connection.prepare_cached(include_str!("../../sql/records/keep.sql"))?;
    keep.execute(params![
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

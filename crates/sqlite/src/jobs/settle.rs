//! Ending claims: the lease's row decides, and what it decides happens in the same transaction.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use tidemill_core::dead::DeadLetter;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{Record, Verdict, Wake};
use tidemill_core::{Error, Lease};

use super::enqueue::{Line, announce_if_sooner};
use super::queue;
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::row;
use crate::store::SqliteStore;

pub(crate) async fn settle(store: &SqliteStore, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
    end_all(store, settlements, Which::Current).await
}

pub(crate) async fn rescue(store: &SqliteStore, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
    end_all(store, settlements, Which::Expired).await
}

/// Which leases may be ended.
#[derive(Debug, Clone, Copy)]
enum Which {
    /// Those whose token is the current one.
    Current,
    /// Of these, those that have run out.
    Expired,
}

async fn end_all(
    store: &SqliteStore,
    settlements: &[Settlement],
    which: Which,
) -> Result<Vec<Verdict>, Error> {
    if settlements.is_empty() {
        return Ok(Vec::new());
    }
    let batch = Batch::of(settlements);
    store.write(Cost::Change(settlements.len()), move |tx| batch.end(tx, which)).await
}

/// Settlements in the order of their tokens, and where each was in the caller's. Jobs that were claimed
/// together and end together stand together then, and need two statements instead of two each. Of two
/// settlements of one lease the first stays first.
struct Batch {
    settlements: Vec<(usize, Settlement)>,
}

impl Batch {
    fn of(settlements: &[Settlement]) -> Self {
        let mut settlements: Vec<_> = settlements.iter().cloned().enumerate().collect();
        settlements.sort_by_key(|(_, settlement)| settlement.lease.token);
        Self { settlements }
    }

    fn end(&self, tx: &mut Tx<'_>, which: Which) -> Result<Vec<Verdict>, Failure> {
        let mut verdicts = vec![Verdict::LeaseLost; self.settlements.len()];
        let mut ender = Ender::new(tx.connection, which)?;
        for run in self.settlements.chunk_by(|(_, one), (_, next)| follows(one, next)) {
            let all_ended = run.len() > 1 && ender.end_run(&run[0].1, &run[run.len() - 1].1)?;
            for (index, settlement) in run {
                verdicts[*index] = if all_ended { Verdict::Accepted } else { ender.end(tx, settlement)? };
            }
        }
        Ok(verdicts)
    }
}

/// Whether `next` is the same end of the next job of the same claim.
fn follows(one: &Settlement, next: &Settlement) -> bool {
    let plain = |settlement: &Settlement| matches!(settlement.change, Change::Finish(None));
    plain(one) && plain(next) && one.lease.token.0.checked_add(1) == Some(next.lease.token.0)
}

/// The statements that end a lease and finish its job, looked up once for a whole batch: for one job, looking
/// them up costs as much as running them.
struct Ender<'c> {
    connection: &'c Connection,
    which: Which,
    release: CachedStatement<'c>,
    finish: CachedStatement<'c>,
}

impl<'c> Ender<'c> {
    fn new(connection: &'c Connection, which: Which) -> Result<Self, Failure> {
        let release = match which {
            Which::Current => include_str!("../../sql/jobs/settle.sql"),
            Which::Expired => include_str!("../../sql/jobs/rescue.sql"),
        };
        let release = connection.prepare_cached(release)?;
        let finish = connection.prepare_cached(include_str!("../../sql/jobs/finish.sql"))?;
        Ok(Self { connection, which, release, finish })
    }

    /// Finishes all jobs from `first` to `last`, if their one claim still holds every one of them.
    fn end_run(&mut self, first: &Settlement, last: &Settlement) -> Result<bool, Failure> {
        let ((claim, first), (_, last)) = (row::parts(first.lease.token), row::parts(last.lease.token));
        if !matches!(self.which, Which::Current) || self.held(claim, first, last)? != last - first + 1 {
            return Ok(false);
        }
        let connection = self.connection;
        connection.prepare_cached(include_str!("../../sql/jobs/settle_run.sql"))?.execute([first, last])?;
        connection.prepare_cached(include_str!("../../sql/jobs/finish_run.sql"))?.execute([first, last])?;
        Ok(true)
    }

    fn held(&self, claim: i64, first: i64, last: i64) -> Result<i64, Failure> {
        let mut held = self.connection.prepare_cached(include_str!("../../sql/jobs/held.sql"))?;
        Ok(held.query_row([first, last, claim], |row| row.get(0))?)
    }

    fn end(&mut self, tx: &mut Tx<'_>, settlement: &Settlement) -> Result<Verdict, Failure> {
        let (claim, seq) = row::parts(settlement.lease.token);
        let requeues = matches!(settlement.change, Change::Requeue { .. });
        let cancelled = requeues && self.is_cancelling(seq)?;
        if !self.release(tx, claim, seq)? {
            return Ok(Verdict::LeaseLost);
        }
        let job = Freed { lease: &settlement.lease, seq };
        match &settlement.change {
            Change::Finish(record) => {
                self.finish.execute([seq])?;
                record.as_ref().map_or(Ok(()), |record| keep(tx, record))?;
            }
            Change::Continue(_) => unimplemented!(),
            Change::Requeue { .. } if cancelled => {
                self.finish.execute([seq])?;
            }
            Change::Requeue { envelope, delay } => requeue(tx, &job, envelope, *delay)?,
            Change::Bury(letter) => bury(tx, &job, letter)?,
        }
        Ok(Verdict::Accepted)
    }

    fn is_cancelling(&self, seq: i64) -> Result<bool, Failure> {
        let mut ask = self.connection.prepare_cached(include_str!("../../sql/jobs/cancelling.sql"))?;
        Ok(ask.query_row([seq], |row| row.get(0)).optional()?.unwrap_or(false))
    }

    /// Ends the lease if it may be ended. Whoever does this decides alone what becomes of the job.
    fn release(&mut self, tx: &Tx<'_>, claim: i64, seq: i64) -> Result<bool, Failure> {
        let ended = match self.which {
            Which::Current => self.release.execute([seq, claim])?,
            Which::Expired => self.release.execute([seq, claim, tx.now.0])?,
        };
        Ok(ended == 1)
    }
}

/// A job whose lease has just been ended.
struct Freed<'l> {
    lease: &'l Lease,
    seq: i64,
}

fn keep(tx: &mut Tx<'_>, record: &Record) -> Result<(), Failure> {
    let mut keep = tx.connection.prepare_cached(include_str!("../../sql/records/keep.sql"))?;
    keep.execute(params![
        record.job.as_str(),
        record.state.to_string(),
        record.error,
        record.finished_at.0,
        tx.now.after(record.keep).0,
        &record.output[..],
    ])?;
    tx.announcements.add(Wake::Finished(record.job.clone()));
    Ok(())
}

fn requeue(tx: &mut Tx<'_>, job: &Freed<'_>, envelope: &Bytes, delay: Duration) -> Result<(), Failure> {
    let due = tx.now.after(delay);
    let mut requeue = tx.connection.prepare_cached(include_str!("../../sql/jobs/requeue.sql"))?;
    let queue = requeue.query_row(params![job.seq, &envelope[..], due.0], |row| row.get(0)).optional()?;
    // A lease without its job is a damaged file; ending it was all there is to do.
    let Some(number) = queue else { return Ok(()) };
    queue::line_up(tx, number, due, job.seq)?;
    let queue = &job.lease.queue;
    if delay.is_zero() {
        tx.announcements.add(Wake::Queue { queue: queue.clone(), jobs: 1 });
        return Ok(());
    }
    announce_if_sooner(tx, &Line { queue, number }, Some(due))
}

/// Whoever waits for the job's end hears of it: a dead job's record is its letter.
fn bury(tx: &mut Tx<'_>, job: &Freed<'_>, letter: &DeadLetter) -> Result<(), Failure> {
    let mut bury = tx.connection.prepare_cached(include_str!("../../sql/letters/bury.sql"))?;
    bury.execute(params![job.seq, &letter.bytes[..], tx.now.0])?;
    tx.announcements.add(Wake::Finished(job.lease.job.clone()));
    Ok(())
}

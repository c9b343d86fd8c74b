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
use crate::call::Tx;
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
    let settlements = settlements.to_vec();
    let work = move |tx: &mut Tx<'_>| {
        let mut ender = Ender::new(tx.connection, which)?;
        settlements.iter().map(|one| ender.end(tx, one)).collect()
    };
    store.write(256, work).await
}

/// The statements that end a lease and finish its job, looked up once for a whole batch: for one job, looking
/// them up costs as much as running them.
struct Ender<'c> {
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
        Ok(Self { which, release, finish })
    }

    fn end(&mut self, tx: &mut Tx<'_>, settlement: &Settlement) -> Result<Verdict, Failure> {
        let (claim, seq) = row::parts(settlement.lease.token);
        if !self.release(tx, claim, seq)? {
            return Ok(Verdict::LeaseLost);
        }
        let job = Freed { lease: &settlement.lease, seq };
        match &settlement.change {
            Change::Finish(record) => {
                self.finish.execute([seq])?;
                record.as_ref().map_or(Ok(()), |record| keep(tx, record))?;
            }
            Change::Requeue { envelope, delay } => requeue(tx, &job, envelope, *delay)?,
            Change::Bury(letter) => bury(tx, &job, letter)?,
        }
        Ok(Verdict::Accepted)
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
        tx.announcements.add(Wake::Queue(queue.clone()));
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

//! Ending claims: the lease's row decides, and what it decides happens in the same transaction.

use rusqlite::{CachedStatement, Connection, OptionalExtension};
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::Verdict;
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Lease};

use super::end::Freed;
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::row;
use crate::runs::Wanted;
use crate::store::SqliteStore;

pub(crate) async fn settle(store: &SqliteStore, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
    end_all(store, settlements, Which::Current).await
}

pub(crate) async fn rescue(store: &SqliteStore, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
    end_all(store, settlements, Which::Expired).await
}

/// Ends one claim whose token is the current one, as part of a transaction.
pub(crate) fn settle_one(tx: &mut Tx<'_>, settlement: &Settlement) -> Result<Verdict, Failure> {
    let mut ender = Ender::new(tx.connection, Which::Current)?;
    let verdict = ender.end(tx, settlement)?;
    ender.wanted.make(tx)?;
    Ok(verdict)
}

/// Whether a lease is the current one of its job.
pub(crate) fn is_current(tx: &Tx<'_>, lease: &Lease) -> Result<bool, Failure> {
    let (claim, seq) = row::parts(lease.token);
    let mut held = tx.connection.prepare_cached(include_str!("../../sql/jobs/held.sql"))?;
    Ok(held.query_row([seq, seq, claim], |row| row.get::<_, i64>(0))? == 1)
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
    let rows = settlements.iter().map(rows).sum();
    store.write(Cost::change(rows), move |tx| batch.end(tx, which)).await
}

/// Tells the worker that had the job, if it is only slow, and whoever waits for a job that is not to run again.
fn announce_lost(tx: &mut Tx<'_>, Settlement { lease, change }: &Settlement) {
    tx.announcements.add(Wake::LeaseLost(lease.job.clone()));
    if matches!(change, Change::Finish(None)) {
        tx.announcements.add(Wake::Finished(lease.job.chain()));
    }
}

/// About how many rows a settlement changes.
fn rows(settlement: &Settlement) -> usize {
    match &settlement.change {
        Change::Commit(commit) => 2 + commit.effects.len(),
        _ => 1,
    }
}

/// Settlements in the order of their tokens, and where each was in the caller's. Jobs that were claimed
/// together and end together stand together then, and need two statements instead of two each. Of two
/// settlements of one lease the first stays first. What runs are told stays in the caller's order: it is the order in
/// which they hear of it.
struct Batch {
    settlements: Vec<(usize, Settlement)>,
}

impl Batch {
    fn of(settlements: &[Settlement]) -> Self {
        let mut settlements: Vec<_> = settlements.iter().cloned().enumerate().collect();
        if !settlements.iter().any(|(_, settlement)| concerns_runs(settlement)) {
            settlements.sort_by_key(|(_, settlement)| settlement.lease.token);
        }
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
        ender.wanted.make(tx)?;
        Ok(verdicts)
    }
}

fn concerns_runs(settlement: &Settlement) -> bool {
    matches!(settlement.change, Change::Commit(_) | Change::Deliver(_))
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
    awaited: CachedStatement<'c>,
    /// Runs that were told something, and get their tasks at the end.
    wanted: Wanted,
}

impl<'c> Ender<'c> {
    fn new(connection: &'c Connection, which: Which) -> Result<Self, Failure> {
        let release = match which {
            Which::Current => include_str!("../../sql/jobs/settle.sql"),
            Which::Expired => include_str!("../../sql/jobs/rescue.sql"),
        };
        let release = connection.prepare_cached(release)?;
        let finish = connection.prepare_cached(include_str!("../../sql/jobs/finish.sql"))?;
        let awaited = connection.prepare_cached(include_str!("../../sql/chains/awaited.sql"))?;
        Ok(Self { connection, which, release, finish, awaited, wanted: Wanted::default() })
    }

    /// Finishes all jobs from `first` to `last`, if their one claim still holds every one of them and nobody waits
    /// for any.
    fn end_run(&mut self, first: &Settlement, last: &Settlement) -> Result<bool, Failure> {
        let ((claim, first), (_, last)) = (row::parts(first.lease.token), row::parts(last.lease.token));
        let held = matches!(self.which, Which::Current) && self.held(claim, first, last)? == last - first + 1;
        if !held || self.is_awaited(first, last)? {
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
        let puts_back = matches!(settlement.change, Change::Requeue { .. } | Change::Continue(_));
        let cancelling = puts_back && self.is_cancelling(seq)?;
        if !self.release(tx, claim, seq)? {
            return Ok(Verdict::LeaseLost);
        }
        if matches!(self.which, Which::Expired) {
            announce_lost(tx, settlement);
        }
        if matches!(settlement.change, Change::Finish(None)) && !self.is_awaited(seq, seq)? {
            self.finish.execute([seq])?;
            return Ok(Verdict::Accepted);
        }
        let Lease { job, queue, .. } = &settlement.lease;
        Freed { seq, job, queue, cancelling }.become_of(tx, &settlement.change, &mut self.wanted)
    }

    fn is_cancelling(&self, seq: i64) -> Result<bool, Failure> {
        let mut ask = self.connection.prepare_cached(include_str!("../../sql/jobs/cancelling.sql"))?;
        Ok(ask.query_row([seq], |row| row.get(0)).optional()?.unwrap_or(false))
    }

    fn is_awaited(&mut self, first: i64, last: i64) -> Result<bool, Failure> {
        Ok(self.awaited.query_row([first, last], |row| row.get(0))?)
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

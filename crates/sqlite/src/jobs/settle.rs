//! `settle`: ends claims. The row of the lease is the fence, and the change happens in
//! the same transaction.

use rusqlite::{CachedStatement, Connection, OptionalExtension};
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{Fence, SettleParams, Verdict};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Lease};

use super::detached_job::DetachedJob;
use crate::chains::IS_AWAITED;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::row;
use crate::runs::PendingTasks;
use crate::store::SqliteStore;

/// How many jobs of a range are still leased by one claim.
const COUNT_HELD_LEASES: &str =
    "SELECT count(*) FROM tidemill_running WHERE seq BETWEEN ?1 AND ?2 AND token = ?3";

/// Deletes a range of leases of one claim, which were just checked to be current.
const DELETE_LEASE_RANGE: &str = "DELETE FROM tidemill_running WHERE seq BETWEEN ?1 AND ?2";

/// Deletes a range of jobs whose leases were just deleted.
const DELETE_JOB_RANGE: &str = "DELETE FROM tidemill_jobs WHERE seq BETWEEN ?1 AND ?2";

/// Whether a running job is to be cancelled. Then it is not put back.
const IS_CANCELLING: &str = "SELECT cancelling FROM tidemill_running WHERE seq = ?1";

pub(crate) async fn settle(store: &SqliteStore, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
    let SettleParams { settlements, fence } = settle;
    if settlements.is_empty() {
        return Ok(Vec::new());
    }
    let batch = SettlementBatch::new(settlements);
    let rows = settlements.iter().map(rows).sum();
    store.write(Cost::change(rows), move |tx| batch.settle(tx, fence)).await
}

/// Settles one claim whose lease is the current one, as part of a transaction.
pub(crate) fn settle_one(tx: &mut Tx<'_>, settlement: &Settlement) -> Result<Verdict, RequestError> {
    let mut settler = Settler::new(tx.connection, Fence::Current)?;
    let verdict = settler.settle(tx, settlement)?;
    settler.tasks.create(tx)?;
    Ok(verdict)
}

/// Whether a lease is the current one of its job.
pub(crate) fn is_current(tx: &Tx<'_>, lease: &Lease) -> Result<bool, RequestError> {
    let (claim, seq) = row::claim_and_seq(lease.token);
    let mut held = tx.connection.prepare_cached(COUNT_HELD_LEASES)?;
    Ok(held.query_row([seq, seq, claim], |row| row.get::<_, i64>(0))? == 1)
}

/// Notifies the worker that lost the lease, in case it is only slow, and the waiters for a job that
/// will not run again.
fn announce_lost(tx: &mut Tx<'_>, Settlement { lease, change }: &Settlement) {
    tx.wakes.add(Wake::LeaseLost(lease.job.clone()));
    if matches!(change, Change::Finish(None)) {
        tx.wakes.add(Wake::Finished(lease.job.chain()));
    }
}

/// About how many rows a settlement changes.
fn rows(settlement: &Settlement) -> usize {
    match &settlement.change {
        Change::Commit(commit) => 2 + commit.effects.len(),
        _ => 1,
    }
}

/// Settlements sorted by token, with the index of each in the caller's slice. Jobs that were
/// claimed together and end together are then adjacent, and need two statements instead of two
/// each. Of two settlements of one lease the first stays first. Settlements with events for runs
/// keep the caller's order: it is the order in which the runs receive the events.
struct SettlementBatch {
    settlements: Vec<(usize, Settlement)>,
}

impl SettlementBatch {
    fn new(settlements: &[Settlement]) -> Self {
        let mut settlements: Vec<_> = settlements.iter().cloned().enumerate().collect();
        if !settlements.iter().any(|(_, settlement)| concerns_runs(settlement)) {
            settlements.sort_by_key(|(_, settlement)| settlement.lease.token);
        }
        Self { settlements }
    }

    fn settle(&self, tx: &mut Tx<'_>, fence: Fence) -> Result<Vec<Verdict>, RequestError> {
        let mut verdicts = vec![Verdict::LeaseLost; self.settlements.len()];
        let mut settler = Settler::new(tx.connection, fence)?;
        for range in self.settlements.chunk_by(|(_, one), (_, next)| follows(one, next)) {
            let all_finished =
                range.len() > 1 && settler.finish_range(&range[0].1, &range[range.len() - 1].1)?;
            for (index, settlement) in range {
                verdicts[*index] =
                    if all_finished { Verdict::Accepted } else { settler.settle(tx, settlement)? };
            }
        }
        settler.tasks.create(tx)?;
        Ok(verdicts)
    }
}

fn concerns_runs(settlement: &Settlement) -> bool {
    matches!(settlement.change, Change::Commit(_) | Change::Deliver(_))
}

/// Whether both finish without a record, and `next` has the next number of the same claim.
fn follows(one: &Settlement, next: &Settlement) -> bool {
    let plain = |settlement: &Settlement| matches!(settlement.change, Change::Finish(None));
    plain(one) && plain(next) && one.lease.token.0.checked_add(1) == Some(next.lease.token.0)
}

/// Settles claims with statements that are looked up once for a whole batch. For a single job the
/// lookup costs as much as the statement.
struct Settler<'c> {
    connection: &'c Connection,
    fence: Fence,
    delete_lease: CachedStatement<'c>,
    delete_job: CachedStatement<'c>,
    is_awaited: CachedStatement<'c>,
    /// The runs that received events. Their tasks are created at the end.
    tasks: PendingTasks,
}

impl<'c> Settler<'c> {
    fn new(connection: &'c Connection, fence: Fence) -> Result<Self, RequestError> {
        let delete_lease = match fence {
            Fence::Current => sql!("jobs/settle"),
            Fence::Expired => sql!("jobs/rescue"),
        };
        let delete_lease = connection.prepare_cached(delete_lease)?;
        let delete_job = connection.prepare_cached(sql!("jobs/delete"))?;
        let is_awaited = connection.prepare_cached(IS_AWAITED)?;
        Ok(Self { connection, fence, delete_lease, delete_job, is_awaited, tasks: PendingTasks::default() })
    }

    /// Finishes all jobs from `first` to `last`, if their claim still holds every one of them and
    /// no job waits for any.
    fn finish_range(&mut self, first: &Settlement, last: &Settlement) -> Result<bool, RequestError> {
        let ((claim, first), (_, last)) =
            (row::claim_and_seq(first.lease.token), row::claim_and_seq(last.lease.token));
        let held =
            matches!(self.fence, Fence::Current) && self.count_held(claim, first, last)? == last - first + 1;
        if !held || self.is_awaited(first, last)? {
            return Ok(false);
        }
        let connection = self.connection;
        connection.prepare_cached(DELETE_LEASE_RANGE)?.execute([first, last])?;
        connection.prepare_cached(DELETE_JOB_RANGE)?.execute([first, last])?;
        Ok(true)
    }

    fn count_held(&self, claim: i64, first: i64, last: i64) -> Result<i64, RequestError> {
        let mut held = self.connection.prepare_cached(COUNT_HELD_LEASES)?;
        Ok(held.query_row([first, last, claim], |row| row.get(0))?)
    }

    fn settle(&mut self, tx: &mut Tx<'_>, settlement: &Settlement) -> Result<Verdict, RequestError> {
        let (claim, seq) = row::claim_and_seq(settlement.lease.token);
        let puts_back = matches!(settlement.change, Change::Requeue { .. } | Change::Continue(_));
        let cancelling = puts_back && self.is_cancelling(seq)?;
        if !self.delete_lease(tx, claim, seq)? {
            return Ok(Verdict::LeaseLost);
        }
        if matches!(self.fence, Fence::Expired) {
            announce_lost(tx, settlement);
        }
        if matches!(settlement.change, Change::Finish(None)) && !self.is_awaited(seq, seq)? {
            self.delete_job.execute([seq])?;
            return Ok(Verdict::Accepted);
        }
        let Lease { job, queue, .. } = &settlement.lease;
        DetachedJob { seq, job, queue, cancelling }.apply(tx, &settlement.change, &mut self.tasks)
    }

    fn is_cancelling(&self, seq: i64) -> Result<bool, RequestError> {
        let mut read = self.connection.prepare_cached(IS_CANCELLING)?;
        Ok(read.query_row([seq], |row| row.get(0)).optional()?.unwrap_or(false))
    }

    fn is_awaited(&mut self, first: i64, last: i64) -> Result<bool, RequestError> {
        Ok(self.is_awaited.query_row([first, last], |row| row.get(0))?)
    }

    /// Deletes the lease if it may be ended. The caller that deletes it decides alone what happens
    /// to the job.
    fn delete_lease(&mut self, tx: &Tx<'_>, claim: i64, seq: i64) -> Result<bool, RequestError> {
        let deleted = match self.fence {
            Fence::Current => self.delete_lease.execute([seq, claim])?,
            Fence::Expired => self.delete_lease.execute([seq, claim, tx.now.0])?,
        };
        Ok(deleted == 1)
    }
}

//! Removing what has outlived its purpose.

use tidemill_core::Error;
use tidemill_core::name::{Guarantee, JobId, Queue};
use tidemill_core::store::Pruned;

use super::find::{find, remove_row};
use super::queue;
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

/// The most of each sort that one call removes.
const LIMIT: i64 = 1_000;

pub(crate) async fn prune(store: &SqliteStore, queues: &[Queue]) -> Result<Pruned, Error> {
    let forgetful = |queue: &&Queue| queue.guarantee == Guarantee::AtMostOnce;
    let queues: Vec<_> = queues.iter().filter(forgetful).cloned().collect();
    store.write(Cost::change(LIMIT as usize), move |tx| prune_all(tx, &queues)).await
}

fn prune_all(tx: &mut Tx<'_>, queues: &[Queue]) -> Result<Pruned, Failure> {
    let mut records = tx.connection.prepare_cached(include_str!("../../sql/records/prune.sql"))?;
    let removed = records.execute([tx.now.0, LIMIT])? as u64;
    let mut pruned = Pruned { records: removed, leftovers: 0, more: removed >= LIMIT as u64 };
    for queue in queues {
        let forgotten = forget_expired(tx, queue)?;
        pruned.leftovers += forgotten;
        pruned.more |= forgotten >= LIMIT as u64;
    }
    Ok(pruned)
}

/// Forgets a queue's jobs that were taken by someone who never came back.
fn forget_expired(tx: &mut Tx<'_>, queue: &Queue) -> Result<u64, Failure> {
    let Some(known) = queue::find(tx.connection, queue)? else { return Ok(0) };
    let mut expired = tx.connection.prepare_cached(include_str!("../../sql/jobs/forget.sql"))?;
    let jobs = expired.query_map([known.number, tx.now.0, LIMIT], |row| row.get(0))?;
    let jobs: Vec<i64> = jobs.collect::<Result<_, _>>()?;
    jobs.iter().try_for_each(|seq| forget(tx, *seq))?;
    Ok(jobs.len() as u64)
}

/// Forgets the job of this id if it was taken at most once and its lease has run out: its id is free again.
pub(super) fn forget_if_expired(tx: &mut Tx<'_>, job: &JobId) -> Result<bool, Failure> {
    let Some(found) = find(tx, job)?.filter(|found| found.is_forgotten(tx.now)) else { return Ok(false) };
    forget(tx, found.seq)?;
    Ok(true)
}

fn forget(tx: &mut Tx<'_>, seq: i64) -> Result<(), Failure> {
    tx.connection.prepare_cached(include_str!("../../sql/jobs/release.sql"))?.execute([seq])?;
    remove_row(tx, seq)
}

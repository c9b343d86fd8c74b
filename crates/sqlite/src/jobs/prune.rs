//! `prune`: deletes expired records and expired at-most-once jobs.

use tidemill_core::Error;
use tidemill_core::name::{Guarantee, JobId, Queue};
use tidemill_core::store::Pruned;

use super::job_row::{delete_row, find};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::store::SqliteStore;

/// Running jobs of an at-most-once queue whose lease has expired. No worker will settle them.
const LIST_EXPIRED_AT_MOST_ONCE: &str =
    "SELECT seq FROM tidemill_running WHERE queue = ?1 AND until <= ?2 LIMIT ?3";

/// The most rows of each kind that one call deletes.
const MAX_PRUNED: i64 = 1_000;

pub(crate) async fn prune(store: &SqliteStore, queues: &[Queue]) -> Result<Pruned, Error> {
    let at_most_once = |queue: &&Queue| queue.guarantee == Guarantee::AtMostOnce;
    let queues: Vec<_> = queues.iter().filter(at_most_once).cloned().collect();
    store.write(Cost::change(MAX_PRUNED as usize), move |tx| prune_all(tx, &queues)).await
}

fn prune_all(tx: &mut Tx<'_>, queues: &[Queue]) -> Result<Pruned, RequestError> {
    let mut records = tx.connection.prepare_cached(sql!("jobs/prune"))?;
    let deleted = records.execute([tx.now.0, MAX_PRUNED])? as u64;
    let mut pruned = Pruned { records: deleted, leftovers: 0, more: deleted >= MAX_PRUNED as u64 };
    for queue in queues {
        let deleted = delete_expired(tx, queue)?;
        pruned.leftovers += deleted;
        pruned.more |= deleted >= MAX_PRUNED as u64;
    }
    Ok(pruned)
}

/// Deletes the jobs of an at-most-once queue whose lease has expired.
fn delete_expired(tx: &mut Tx<'_>, queue: &Queue) -> Result<u64, RequestError> {
    let Some(row) = queue_row::find(tx.connection, queue)? else { return Ok(0) };
    let mut expired = tx.connection.prepare_cached(LIST_EXPIRED_AT_MOST_ONCE)?;
    let jobs = expired.query_map([row.number, tx.now.0, MAX_PRUNED], |row| row.get(0))?;
    let jobs: Vec<i64> = jobs.collect::<Result<_, _>>()?;
    jobs.iter().try_for_each(|seq| delete_running(tx, *seq))?;
    Ok(jobs.len() as u64)
}

/// Deletes the job with this id if it is an at-most-once job whose lease has expired: its id is
/// free again.
pub(super) fn delete_if_expired(tx: &mut Tx<'_>, job: &JobId) -> Result<bool, RequestError> {
    let expired = find(tx, job)?.filter(|row| row.is_expired_at_most_once(tx.now));
    let Some(row) = expired else { return Ok(false) };
    delete_running(tx, row.seq)?;
    Ok(true)
}

fn delete_running(tx: &mut Tx<'_>, seq: i64) -> Result<(), RequestError> {
    tx.connection.prepare_cached(sql!("jobs/delete_running"))?.execute([seq])?;
    delete_row(tx, seq)
}

//! `purge`: deletes the waiting and blocked jobs of a queue.

use bytes::Bytes;
use rusqlite::{Connection, named_params};
use tidemill_core::Error;
use tidemill_core::chain::Blocker;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::wake::Wake;

use super::queue_row::find;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::runs::{self, PendingTasks};
use crate::store::SqliteStore;
use crate::{chains, row};

/// The newest job. A purge stops here, so that it ends however many jobs are added meanwhile.
const FIND_NEWEST_JOB: &str = "SELECT coalesce(max(seq), 0) FROM tidemill_jobs";

/// Deletes a bounded number of a queue's blocked jobs.
const PURGE_BLOCKED: &str = "
    DELETE FROM tidemill_jobs
    WHERE seq IN (SELECT seq FROM tidemill_blocked WHERE queue = ?1 AND seq <= ?2 ORDER BY seq
        LIMIT ?3)
    RETURNING seq, id, due";

/// How many jobs one transaction of a purge reads. Other requests run in between.
const MAX_BATCH_JOBS: usize = 4_000;

/// Purges a queue. Blocked jobs go first, so that none of them becomes ready because its blocker
/// was purged.
pub(crate) async fn purge(store: &SqliteStore, queue: &Queue) -> Result<u64, Error> {
    let purged_queue = queue.clone();
    let range = store.write(Cost::change(1), move |tx| range(tx.connection, &purged_queue)).await?;
    let Some(range) = range else { return Ok(0) };
    Ok(purge_blocked(store, range).await? + purge_waiting(store, range).await?)
}

/// The jobs that a purge covers.
#[derive(Debug, Clone, Copy)]
struct PurgeRange {
    /// The number of the queue.
    queue_number: i64,
    /// The newest job when the purge began, so that the purge ends however many jobs are added
    /// meanwhile.
    last: i64,
}

fn range(connection: &Connection, queue: &Queue) -> Result<Option<PurgeRange>, RequestError> {
    let Some(row) = find(connection, queue)? else { return Ok(None) };
    let mut last = connection.prepare_cached(FIND_NEWEST_JOB)?;
    Ok(Some(PurgeRange { queue_number: row.number, last: last.query_row([], |row| row.get(0))? }))
}

/// Purges blocked jobs. None of them belongs to a run.
async fn purge_blocked(store: &SqliteStore, range: PurgeRange) -> Result<u64, Error> {
    let mut purged = 0;
    loop {
        let work = move |tx: &mut Tx<'_>| remove_blocked(tx, range);
        let removed = store.write(Cost::change(MAX_BATCH_JOBS), work).await?;
        purged += removed as u64;
        if removed < MAX_BATCH_JOBS {
            return Ok(purged);
        }
    }
}

fn remove_blocked(tx: &mut Tx<'_>, range: PurgeRange) -> Result<usize, RequestError> {
    let mut removed = Vec::new();
    let mut purge = tx.connection.prepare_cached(PURGE_BLOCKED)?;
    let mut rows = purge.query([range.queue_number, range.last, MAX_BATCH_JOBS as i64])?;
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        removed.push((seq, row::job_id(row, 1, seq)?));
    }
    drop(rows);
    removed.iter().try_for_each(|(seq, _)| chains::stop_waiting(tx, *seq))?;
    // Only now: the purged jobs that waited for one another are all gone.
    for (seq, chain) in &removed {
        chains::close(tx, *seq, || Blocker::removed_notice(chain))?;
    }
    announce(tx, !removed.is_empty());
    Ok(removed.len())
}

/// Wakes all waiters for job ends. To find out which of many jobs have waiters would cost more.
fn announce(tx: &mut Tx<'_>, some_removed: bool) {
    if some_removed {
        tx.wakes.add(Wake::Everything);
    }
}

/// Purges waiting jobs from position to position, so that jobs that stay are not read again.
async fn purge_waiting(store: &SqliteStore, range: PurgeRange) -> Result<u64, Error> {
    let (mut purged, mut after) = (0, (-1, -1));
    loop {
        let work = move |tx: &mut Tx<'_>| purge_batch(tx, range, after);
        let batch = store.write(Cost::change(MAX_BATCH_JOBS), work).await?;
        purged += batch.removed;
        match batch.next {
            Some(next) => after = next,
            None => return Ok(purged),
        }
    }
}

/// The result of one transaction.
struct PurgedBatch {
    removed: u64,
    /// Where the next transaction starts, if there may be more jobs.
    next: Option<(i64, i64)>,
}

/// A row of `waiting` with its job.
struct WaitingRow {
    due: i64,
    seq: i64,
    chain: JobId,
    /// Its envelope, if it belongs to a run.
    body: Bytes,
}

fn purge_batch(tx: &mut Tx<'_>, range: PurgeRange, after: (i64, i64)) -> Result<PurgedBatch, RequestError> {
    let page = page(tx, range, after)?;
    let next = page.last().filter(|_| page.len() == MAX_BATCH_JOBS).map(|job| (job.due, job.seq));
    let (mut removed, mut tasks) = (0, PendingTasks::default());
    for job in page.iter().filter(|job| !job.chain.is_run_internal()) {
        remove(tx, range.queue_number, job)?;
        runs::notify_removed(tx, &job.chain, &job.body, &mut tasks)?;
        removed += 1;
    }
    tasks.create(tx)?;
    announce(tx, removed > 0);
    Ok(PurgedBatch { removed, next })
}

fn page(tx: &Tx<'_>, range: PurgeRange, (due, seq): (i64, i64)) -> Result<Vec<WaitingRow>, RequestError> {
    let mut purge = tx.connection.prepare_cached(sql!("queues/purge"))?;
    let mut rows = purge.query(named_params! {
        ":queue": range.queue_number,
        ":last": range.last,
        ":limit": MAX_BATCH_JOBS as i64,
        ":after_due": due,
        ":after_seq": seq,
    })?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        let (due, seq) = (row.get(0)?, row.get(1)?);
        page.push(WaitingRow { due, seq, chain: row::job_id(row, 2, seq)?, body: row::body(row, 3)? });
    }
    Ok(page)
}

fn remove(tx: &mut Tx<'_>, queue_number: i64, job: &WaitingRow) -> Result<(), RequestError> {
    let connection = tx.connection;
    let delete_waiting = sql!("jobs/delete_waiting");
    connection.prepare_cached(delete_waiting)?.execute([queue_number, job.due, job.seq])?;
    connection.prepare_cached(sql!("jobs/delete"))?.execute([job.seq])?;
    chains::close(tx, job.seq, || Blocker::removed_notice(&job.chain))
}

//! Emptying a queue of what waits in it.

use bytes::Bytes;
use rusqlite::Connection;
use tidemill_core::Error;
use tidemill_core::chain::Blocker;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::wake::Wake;

use super::queue::find;
use crate::call::{Cost, Tx};
use crate::chains;
use crate::error::Failure;
use crate::row;
use crate::runs::{self, Wanted};
use crate::store::SqliteStore;

/// How many jobs one transaction of a purge looks at: others get their turn in between.
const PURGE: usize = 4_000;

/// Those that are blocked go first, so that none of them starts because another that goes had it blocked.
pub(crate) async fn purge(store: &SqliteStore, queue: &Queue) -> Result<u64, Error> {
    let wanted = queue.clone();
    let range = store.write(Cost::change(1), move |tx| range(tx.connection, &wanted)).await?;
    let Some(range) = range else { return Ok(0) };
    Ok(purge_blocked(store, range).await? + purge_waiting(store, range).await?)
}

/// What a purge is about.
#[derive(Debug, Clone, Copy)]
struct Range {
    /// The queue's number.
    line: i64,
    /// The newest job there was when it began, so that it ends however many are added meanwhile.
    last: i64,
}

fn range(connection: &Connection, queue: &Queue) -> Result<Option<Range>, Failure> {
    let Some(known) = find(connection, queue)? else { return Ok(None) };
    let mut last = connection.prepare_cached(include_str!("../../sql/jobs/last.sql"))?;
    Ok(Some(Range { line: known.number, last: last.query_row([], |row| row.get(0))? }))
}

/// Blocked jobs are nothing of a run's.
async fn purge_blocked(store: &SqliteStore, range: Range) -> Result<u64, Error> {
    let mut purged = 0;
    loop {
        let work = move |tx: &mut Tx<'_>| remove_blocked(tx, range);
        let removed = store.write(Cost::change(PURGE), work).await?;
        purged += removed as u64;
        if removed < PURGE {
            return Ok(purged);
        }
    }
}

fn remove_blocked(tx: &mut Tx<'_>, range: Range) -> Result<usize, Failure> {
    let mut removed = Vec::new();
    let mut purge = tx.connection.prepare_cached(include_str!("../../sql/jobs/purge_blocked.sql"))?;
    let mut rows = purge.query([range.line, range.last, PURGE as i64])?;
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        removed.push((seq, row::job_id(row, 1, seq)?));
    }
    drop(rows);
    removed.iter().try_for_each(|(seq, _)| chains::stop_waiting(tx, *seq))?;
    // Only now: those that waited for one another are all gone.
    for (seq, chain) in &removed {
        chains::close(tx, *seq, || Blocker::removed_notice(chain))?;
    }
    announce(tx, !removed.is_empty());
    Ok(removed.len())
}

/// Wakes everybody who waits for an end: which of many jobs somebody waits for is not worth finding out.
fn announce(tx: &mut Tx<'_>, some_removed: bool) {
    if some_removed {
        tx.announcements.add(Wake::Everything);
    }
}

/// Goes from job to job: what stays must not be looked at again.
async fn purge_waiting(store: &SqliteStore, range: Range) -> Result<u64, Error> {
    let (mut purged, mut behind) = (0, (-1, -1));
    loop {
        let work = move |tx: &mut Tx<'_>| purge_some(tx, range, behind);
        let part = store.write(Cost::change(PURGE), work).await?;
        purged += part.removed;
        match part.next {
            Some(next) => behind = next,
            None => return Ok(purged),
        }
    }
}

/// What one transaction did.
struct Part {
    removed: u64,
    /// Where the next begins, if there may be more.
    next: Option<(i64, i64)>,
}

/// A waiting job.
struct Waiting {
    due: i64,
    seq: i64,
    chain: JobId,
    /// Its bytes, if it belongs to a run.
    body: Bytes,
}

fn purge_some(tx: &mut Tx<'_>, range: Range, behind: (i64, i64)) -> Result<Part, Failure> {
    let page = page(tx, range, behind)?;
    let next = page.last().filter(|_| page.len() == PURGE).map(|job| (job.due, job.seq));
    let (mut removed, mut wanted) = (0, Wanted::default());
    for job in page.iter().filter(|job| !job.chain.is_run_internal()) {
        remove(tx, range.line, job)?;
        runs::tell_of_removed(tx, &job.chain, &job.body, &mut wanted)?;
        removed += 1;
    }
    wanted.make(tx)?;
    announce(tx, removed > 0);
    Ok(Part { removed, next })
}

fn page(tx: &Tx<'_>, range: Range, (due, seq): (i64, i64)) -> Result<Vec<Waiting>, Failure> {
    let mut purge = tx.connection.prepare_cached(include_str!("../../sql/jobs/purge.sql"))?;
    let mut rows = purge.query([range.line, range.last, PURGE as i64, due, seq])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        let (due, seq) = (row.get(0)?, row.get(1)?);
        page.push(Waiting { due, seq, chain: row::job_id(row, 2, seq)?, body: row::body(row, 3)? });
    }
    Ok(page)
}

fn remove(tx: &mut Tx<'_>, line: i64, job: &Waiting) -> Result<(), Failure> {
    let connection = tx.connection;
    connection.prepare_cached(include_str!("../../sql/jobs/leave.sql"))?.execute([line, job.due, job.seq])?;
    connection.prepare_cached(include_str!("../../sql/jobs/finish.sql"))?.execute([job.seq])?;
    chains::close(tx, job.seq, || Blocker::removed_notice(&job.chain))
}

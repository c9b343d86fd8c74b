//! Emptying a queue of what waits in it.

use rusqlite::Connection;
use tidemill_core::Error;
use tidemill_core::chain::Blocker;
use tidemill_core::name::{JobId, Queue};

use super::queue::find;
use crate::call::{Cost, Tx};
use crate::chains;
use crate::error::Failure;
use crate::row;
use crate::store::SqliteStore;

/// How many jobs one transaction of a purge removes: others get their turn in between.
const PURGE: i64 = 4_000;

/// Which of a queue's jobs.
#[derive(Debug, Clone, Copy)]
enum Part {
    Blocked,
    Waiting,
}

/// Those that are blocked go first, so that none of them starts because another that goes had it blocked.
pub(crate) async fn purge(store: &SqliteStore, queue: &Queue) -> Result<u64, Error> {
    let wanted = queue.clone();
    let range = store.write(Cost::Change(1), move |tx| range(tx.connection, &wanted)).await?;
    let Some(range) = range else { return Ok(0) };
    Ok(purge_part(store, range, Part::Blocked).await? + purge_part(store, range, Part::Waiting).await?)
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

async fn purge_part(store: &SqliteStore, range: Range, part: Part) -> Result<u64, Error> {
    let mut purged = 0;
    loop {
        let work = move |tx: &mut Tx<'_>| purge_some(tx, range, part);
        let removed = store.write(Cost::Change(PURGE as usize), work).await?;
        purged += removed;
        if removed < PURGE as u64 {
            return Ok(purged);
        }
    }
}

/// A job whose row is gone already.
struct Removed {
    seq: i64,
    chain: JobId,
    due: i64,
}

fn purge_some(tx: &mut Tx<'_>, range: Range, part: Part) -> Result<u64, Failure> {
    let removed = remove(tx, range, part)?;
    let mut leave = tx.connection.prepare_cached(include_str!("../../sql/jobs/leave.sql"))?;
    for job in &removed {
        match part {
            Part::Blocked => chains::stop_waiting(tx, job.seq)?,
            Part::Waiting => {
                leave.execute([range.line, job.due, job.seq])?;
            }
        }
    }
    // Only now: those that waited for one another are all gone.
    for job in &removed {
        chains::close(tx, job.seq, || Blocker::told_by_removed(&job.chain))?;
    }
    Ok(removed.len() as u64)
}

fn remove(tx: &Tx<'_>, range: Range, part: Part) -> Result<Vec<Removed>, Failure> {
    let sql = match part {
        Part::Blocked => include_str!("../../sql/jobs/purge_blocked.sql"),
        Part::Waiting => include_str!("../../sql/jobs/purge.sql"),
    };
    let mut purge = tx.connection.prepare_cached(sql)?;
    let mut rows = purge.query([range.line, range.last, PURGE])?;
    let mut removed = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        removed.push(Removed { seq, chain: row::job_id(row, 1, seq)?, due: row.get(2)? });
    }
    Ok(removed)
}

//! A chain that closes tells those who wait for it, and whoever waited for nothing else gets in line.

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tidemill_core::Timestamp;
use tidemill_core::chain::{Blocker, with_blockers};
use tidemill_core::name::{JobId, Queue};

use super::blocks::stop_waiting;
use crate::call::Tx;
use crate::error::Failure;
use crate::jobs::{Line, arrive};
use crate::row;

/// Tells those who wait for the chain with the number `seq` how it ended.
pub(crate) fn close(tx: &mut Tx<'_>, seq: i64, told: impl FnOnce() -> Bytes) -> Result<(), Failure> {
    if !is_awaited(tx, seq)? {
        return Ok(());
    }
    for waiter in tell(tx, seq, &told())? {
        let mut count_down = tx.connection.prepare_cached(include_str!("../../sql/chains/count_down.sql"))?;
        let open = count_down.query_row([waiter], |row| row.get::<_, i64>(0)).optional()?;
        if open == Some(0) {
            unblock(tx, waiter)?;
        }
    }
    Ok(())
}

/// Tells those who wait for the chain with the number `seq` that it is removed. Its row is still there.
pub(crate) fn close_removed(tx: &mut Tx<'_>, seq: i64) -> Result<(), Failure> {
    if !is_awaited(tx, seq)? {
        return Ok(());
    }
    let chain = id(tx, seq)?;
    close(tx, seq, || Blocker::removed_notice(&chain))
}

fn is_awaited(tx: &Tx<'_>, seq: i64) -> Result<bool, Failure> {
    let mut awaited = tx.connection.prepare_cached(include_str!("../../sql/chains/awaited.sql"))?;
    Ok(awaited.query_row([seq, seq], |row| row.get(0))?)
}

fn id(tx: &Tx<'_>, seq: i64) -> Result<JobId, Failure> {
    let mut id = tx.connection.prepare_cached(include_str!("../../sql/chains/id.sql"))?;
    let mut rows = id.query([seq])?;
    match rows.next()? {
        Some(row) => row::job_id(row, 0, seq),
        None => Ok(JobId::new(&format!("invalid-{seq}"))?),
    }
}

fn tell(tx: &Tx<'_>, seq: i64, told: &Bytes) -> Result<Vec<i64>, Failure> {
    let mut tell = tx.connection.prepare_cached(include_str!("../../sql/chains/tell.sql"))?;
    let waiters = tell.query_map(params![seq, &told[..]], |row| row.get(0))?;
    Ok(waiters.collect::<Result<_, _>>()?)
}

/// Puts a job in line that waits for nobody any more, with all it was told.
fn unblock(tx: &mut Tx<'_>, seq: i64) -> Result<(), Failure> {
    let told = told(tx, seq)?;
    stop_waiting(tx, seq)?;
    // What waits without being there is a damaged file, and nothing can be done for it.
    let Some(Released { line, queue, due, body }) = released(tx, seq)? else { return Ok(()) };
    let envelope = with_blockers(&body, told.iter().map(|told| &told[..]));
    // Like any other that comes into line now, it does not overtake those that have waited longer.
    let due = due.max(tx.now);
    let mut requeue = tx.connection.prepare_cached(include_str!("../../sql/jobs/requeue.sql"))?;
    requeue.query_row(params![seq, &envelope[..], due.0], |row| row.get::<_, i64>(0))?;
    arrive(tx, &Line { queue: &queue, number: line }, due, seq)
}

fn told(tx: &Tx<'_>, seq: i64) -> Result<Vec<Bytes>, Failure> {
    let mut list = tx.connection.prepare_cached(include_str!("../../sql/chains/told.sql"))?;
    let mut rows = list.query([seq])?;
    let mut told = Vec::new();
    while let Some(row) = rows.next()? {
        told.push(row::body(row, 0)?);
    }
    Ok(told)
}

struct Released {
    line: i64,
    queue: Queue,
    due: Timestamp,
    body: Bytes,
}

fn released(tx: &Tx<'_>, seq: i64) -> Result<Option<Released>, Failure> {
    let mut find = tx.connection.prepare_cached(include_str!("../../sql/chains/released.sql"))?;
    let mut rows = find.query([seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (line, due) = (row.get(0)?, Timestamp(row.get(3)?));
    Ok(Some(Released { line, queue: row::queue(row, 1)?, due, body: row::body(row, 4)? }))
}

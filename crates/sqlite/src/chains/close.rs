//! The end of a chain: notifies the jobs that wait for it, and makes ready those that wait for no
//! other.

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tidemill_core::Timestamp;
use tidemill_core::chain::{Blocker, with_blockers};
use tidemill_core::name::{JobId, Queue};

use super::blockers::stop_waiting;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::jobs::insert_and_announce;
use crate::queues::NumberedQueue;
use crate::row;

/// Counts one open chain less that a job waits for. The caller that reaches zero unblocks the job.
const DECREMENT_OPEN_CHAINS: &str =
    "UPDATE tidemill_blocked SET open = open - 1 WHERE seq = ?1 RETURNING open";

/// Whether a job waits for one of these chains. A range, because jobs are finished in ranges.
pub(crate) const IS_AWAITED: &str =
    "SELECT EXISTS (SELECT 1 FROM tidemill_blocks WHERE blocker BETWEEN ?1 AND ?2)";

/// The id of the chain with this number.
const FIND_CHAIN_ID: &str = "SELECT id, seq FROM tidemill_jobs WHERE seq = ?1";

/// Stores the notice of a closing chain for each job that waits for it.
const STORE_NOTICE: &str =
    "UPDATE tidemill_blocks SET blocker = NULL, told = ?2 WHERE blocker = ?1 RETURNING waiter";

/// The notices that a job has received, in the order in which it named the chains.
const LIST_NOTICES: &str = "SELECT told FROM tidemill_blocks WHERE waiter = ?1 ORDER BY position";

/// A job that was just unblocked, with its queue.
const FIND_UNBLOCKED: &str = "
    SELECT j.queue, q.name, q.delivery, j.due, j.body
    FROM tidemill_jobs j JOIN tidemill_queues q ON q.id = j.queue WHERE j.seq = ?1";

/// Notifies the jobs that wait for the chain with the number `seq` of its end.
pub(crate) fn close(tx: &mut Tx<'_>, seq: i64, notice: impl FnOnce() -> Bytes) -> Result<(), RequestError> {
    if !is_awaited(tx, seq)? {
        return Ok(());
    }
    for waiter in store_notice(tx, seq, &notice())? {
        let mut decrement = tx.connection.prepare_cached(DECREMENT_OPEN_CHAINS)?;
        let open = decrement.query_row([waiter], |row| row.get::<_, i64>(0)).optional()?;
        if open == Some(0) {
            unblock(tx, waiter)?;
        }
    }
    Ok(())
}

/// Notifies the jobs that wait for the chain with the number `seq` of its removal. Its row still
/// exists.
pub(crate) fn close_removed(tx: &mut Tx<'_>, seq: i64) -> Result<(), RequestError> {
    if !is_awaited(tx, seq)? {
        return Ok(());
    }
    let chain = id(tx, seq)?;
    close(tx, seq, || Blocker::removed_notice(&chain))
}

fn is_awaited(tx: &Tx<'_>, seq: i64) -> Result<bool, RequestError> {
    let mut awaited = tx.connection.prepare_cached(IS_AWAITED)?;
    Ok(awaited.query_row([seq, seq], |row| row.get(0))?)
}

fn id(tx: &Tx<'_>, seq: i64) -> Result<JobId, RequestError> {
    let mut id = tx.connection.prepare_cached(FIND_CHAIN_ID)?;
    let mut rows = id.query([seq])?;
    match rows.next()? {
        Some(row) => row::job_id(row, 0, seq),
        None => Ok(JobId::new(&format!("invalid-{seq}"))?),
    }
}

fn store_notice(tx: &Tx<'_>, seq: i64, notice: &Bytes) -> Result<Vec<i64>, RequestError> {
    let mut store = tx.connection.prepare_cached(STORE_NOTICE)?;
    let waiters = store.query_map(params![seq, &notice[..]], |row| row.get(0))?;
    Ok(waiters.collect::<Result<_, _>>()?)
}

/// Makes a job ready that waits for no chain any more, with all notices in its envelope.
fn unblock(tx: &mut Tx<'_>, seq: i64) -> Result<(), RequestError> {
    let notices = notices(tx, seq)?;
    stop_waiting(tx, seq)?;
    // A blocked row without its job is a damaged file. Nothing can be done for it.
    let Some(UnblockedRow { queue_number, queue, due, body }) = find_unblocked(tx, seq)? else {
        return Ok(());
    };
    let envelope = with_blockers(&body, notices.iter().map(|notice| &notice[..]));
    // Like any other job that becomes ready now, it does not overtake jobs that have waited longer.
    let due = due.max(tx.now);
    let mut requeue = tx.connection.prepare_cached(sql!("jobs/requeue"))?;
    requeue.query_row(params![seq, &envelope[..], due.0], |row| row.get::<_, i64>(0))?;
    insert_and_announce(tx, &NumberedQueue { queue: &queue, number: queue_number }, due, seq)
}

fn notices(tx: &Tx<'_>, seq: i64) -> Result<Vec<Bytes>, RequestError> {
    let mut list = tx.connection.prepare_cached(LIST_NOTICES)?;
    let mut rows = list.query([seq])?;
    let mut notices = Vec::new();
    while let Some(row) = rows.next()? {
        notices.push(row::body(row, 0)?);
    }
    Ok(notices)
}

struct UnblockedRow {
    queue_number: i64,
    queue: Queue,
    due: Timestamp,
    body: Bytes,
}

fn find_unblocked(tx: &Tx<'_>, seq: i64) -> Result<Option<UnblockedRow>, RequestError> {
    let mut find = tx.connection.prepare_cached(FIND_UNBLOCKED)?;
    let mut rows = find.query([seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (queue_number, due) = (row.get(0)?, Timestamp(row.get(3)?));
    Ok(Some(UnblockedRow { queue_number, queue: row::queue(row, 1)?, due, body: row::body(row, 4)? }))
}

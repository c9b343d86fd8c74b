//! The table `waiting`: scheduled and ready jobs in the order in which they are claimed.

use rusqlite::OptionalExtension;
use tidemill_core::Timestamp;
use tidemill_core::wake::Wake;

use crate::connection::Tx;
use crate::error::RequestError;
use crate::queues::NumberedQueue;

/// Inserts a job into `waiting`.
const INSERT_WAITING: &str = "INSERT INTO tidemill_waiting (queue, due, seq) VALUES (?1, ?2, ?3)";

/// When the next scheduled job of a queue is due: the first key after now.
const NEXT_DUE_JOB: &str =
    "SELECT due FROM tidemill_waiting WHERE queue = ?1 AND due > ?2 ORDER BY due LIMIT 1";

/// Inserts a job into `waiting` and wakes the waiters of its queue.
pub(crate) fn insert_and_announce(
    tx: &mut Tx<'_>,
    target: &NumberedQueue<'_>,
    due: Timestamp,
    seq: i64,
) -> Result<(), RequestError> {
    insert(tx, target.number, due, seq)?;
    if due <= tx.now {
        tx.wakes.add(Wake::Queue { queue: target.queue.clone(), jobs: 1 });
        return Ok(());
    }
    announce_if_sooner(tx, target, Some(due))
}

/// Wakes the sleepers until the queue's next scheduled job if `added` is now the next.
pub(super) fn announce_if_sooner(
    tx: &mut Tx<'_>,
    target: &NumberedQueue<'_>,
    added: Option<Timestamp>,
) -> Result<(), RequestError> {
    let is_next = added.is_some() && next_due(tx, target.number)? == added;
    if is_next {
        tx.wakes.add(Wake::DueEarlier(target.queue.clone()));
    }
    Ok(())
}

/// Inserts a job into `waiting`.
pub(super) fn insert(tx: &Tx<'_>, queue: i64, due: Timestamp, seq: i64) -> Result<(), RequestError> {
    let mut insert = tx.connection.prepare_cached(INSERT_WAITING)?;
    insert.execute([queue, due.0, seq])?;
    Ok(())
}

/// When the queue's next scheduled job is due.
pub(super) fn next_due(tx: &Tx<'_>, queue: i64) -> Result<Option<Timestamp>, RequestError> {
    let mut next = tx.connection.prepare_cached(NEXT_DUE_JOB)?;
    Ok(next.query_row([queue, tx.now.0], |row| row.get(0).map(Timestamp)).optional()?)
}

//! The row of a queue: its number and whether it is paused.

use rusqlite::{Connection, OptionalExtension, params};
use tidemill_core::name::Queue;

use crate::error::RequestError;

/// A queue's number and whether it is paused. It is read inside the transaction that acts on it,
/// so that nothing is claimed after a pause was acknowledged.
const FIND_QUEUE: &str = "SELECT id, paused FROM tidemill_queues WHERE name = ?1 AND delivery = ?2";

/// Inserts a queue.
const INSERT_QUEUE: &str = "INSERT INTO tidemill_queues (name, delivery) VALUES (?1, ?2) RETURNING id";

/// The row of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueRow {
    pub(crate) number: i64,
    pub(crate) paused: bool,
}

/// The row of a queue, if anything has used the queue.
pub(crate) fn find(connection: &Connection, queue: &Queue) -> Result<Option<QueueRow>, RequestError> {
    let mut find = connection.prepare_cached(FIND_QUEUE)?;
    let key = params![queue.name.as_str(), queue.guarantee.to_string()];
    let row = find.query_row(key, |row| Ok(QueueRow { number: row.get(0)?, paused: row.get(1)? }));
    Ok(row.optional()?)
}

/// The row of a queue. It is inserted if it does not exist.
pub(crate) fn find_or_insert(connection: &Connection, queue: &Queue) -> Result<QueueRow, RequestError> {
    if let Some(row) = find(connection, queue)? {
        return Ok(row);
    }
    let mut insert = connection.prepare_cached(INSERT_QUEUE)?;
    let key = params![queue.name.as_str(), queue.guarantee.to_string()];
    Ok(QueueRow { number: insert.query_row(key, |row| row.get(0))?, paused: false })
}

/// A queue and its number.
pub(crate) struct NumberedQueue<'q> {
    pub(crate) queue: &'q Queue,
    pub(crate) number: i64,
}

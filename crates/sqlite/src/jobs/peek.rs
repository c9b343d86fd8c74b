//! A look at a queue without claiming: whether a job is ready, or when the next is due.

use tidemill_core::name::Queue;
use tidemill_core::{Error, Timestamp};

use super::waiting;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::store::SqliteStore;

/// Whether a queue has a job to claim. It only reads, so that a spurious wake-up takes no write
/// lock.
const IS_READY: &str = "SELECT EXISTS (SELECT 1 FROM tidemill_waiting WHERE queue = ?1 AND due <= ?2)";

/// What a queue has to claim.
pub(super) enum QueuePeek {
    /// A job is ready.
    Ready,
    /// No job before this time; none at all if `None`.
    Due(Option<Timestamp>),
}

impl QueuePeek {
    /// Peeks at the queue with this number.
    pub(super) fn new(tx: &Tx<'_>, queue: i64) -> Result<Self, RequestError> {
        let mut ready = tx.connection.prepare_cached(IS_READY)?;
        let is_ready = ready.query_row([queue, tx.now.0], |row| row.get(0))?;
        if is_ready { Ok(Self::Ready) } else { Self::next_scheduled(tx, queue) }
    }

    /// Peeks at the queue with this number after all ready jobs were claimed.
    pub(super) fn next_scheduled(tx: &Tx<'_>, queue: i64) -> Result<Self, RequestError> {
        Ok(Self::Due(waiting::next_due(tx, queue)?))
    }
}

/// Peeks at a queue without a write lock.
pub(super) async fn peek(store: &SqliteStore, queue: &Queue) -> Result<QueuePeek, Error> {
    let queue = queue.clone();
    let read = move |tx: &mut Tx<'_>| {
        let open = queue_row::find(tx.connection, &queue)?.filter(|row| !row.paused);
        open.map_or(Ok(QueuePeek::Due(None)), |row| QueuePeek::new(tx, row.number))
    };
    store.read(read).await
}

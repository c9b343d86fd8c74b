//! What a queue has to give, now or later.

use tidemill_core::name::Queue;
use tidemill_core::{Error, Timestamp};

use super::queue;
use crate::call::Tx;
use crate::error::Failure;
use crate::store::SqliteStore;

/// What a queue has to give.
pub(super) enum Prospect {
    /// A job, now.
    Ready,
    /// None before this time.
    Due(Option<Timestamp>),
}

impl Prospect {
    /// Of the queue with this number.
    pub(super) fn of(tx: &Tx<'_>, queue: i64) -> Result<Self, Failure> {
        let mut ready = tx.connection.prepare_cached(include_str!("../../sql/jobs/ready.sql"))?;
        let is_ready = ready.query_row([queue, tx.now.0], |row| row.get(0))?;
        if is_ready { Ok(Self::Ready) } else { Self::after_all(tx, queue) }
    }

    /// Of the queue with this number, when everything that was ready is taken.
    pub(super) fn after_all(tx: &Tx<'_>, queue: i64) -> Result<Self, Failure> {
        Ok(Self::Due(queue::next_due(tx, queue)?))
    }
}

/// Looks without a write lock.
pub(super) async fn prospect(store: &SqliteStore, queue: &Queue) -> Result<Prospect, Error> {
    let queue = queue.clone();
    let look = move |tx: &mut Tx<'_>| {
        let open = queue::find(tx.connection, &queue)?.filter(|known| !known.paused);
        open.map_or(Ok(Prospect::Due(None)), |known| Prospect::of(tx, known.number))
    };
    store.read(look).await
}

//! Waiting for a queue to have work: for a word about it, for its next time, or until the waiting is over.

use std::future::pending;

use tidemill_core::name::Queue;
use tidemill_core::store::Interrupt;
use tidemill_core::{Error, Store, Timestamp};

use super::queue;
use crate::call::Tx;
use crate::store::SqliteStore;
use crate::wake::{Hint, Listener};

/// A claim that waits: what can end the waiting.
pub(super) struct Patience<'c> {
    pub(super) store: &'c SqliteStore,
    pub(super) queue: &'c Queue,
    pub(super) listener: Listener,
    pub(super) ends: Interrupt<'static>,
    pub(super) interrupt: Interrupt<'c>,
}

impl Patience<'_> {
    /// Waits until there may be work, or until `due`; `false` when the waiting is over.
    pub(super) async fn until_work(&mut self, due: Option<Timestamp>) -> Result<bool, Error> {
        let mut comes_due = sleep_until(self.store, due);
        loop {
            let hint = tokio::select! {
                biased;
                () = &mut self.interrupt => return Ok(false),
                () = &mut comes_due => Hint::Queue,
                hint = self.listener.about(self.queue) => hint,
                () = &mut self.ends => return Ok(false),
            };
            if hint == Hint::Queue {
                return Ok(true);
            }
            match prospect(self.store, self.queue).await? {
                Prospect::Ready => return Ok(true),
                Prospect::Due(due) => comes_due = sleep_until(self.store, due),
            }
        }
    }
}

fn sleep_until(store: &SqliteStore, due: Option<Timestamp>) -> Interrupt<'static> {
    let (clock, Some(due)) = (store.clock(), due) else { return Box::pin(pending()) };
    loop {
        let now = clock.now();
        let sleep = clock.sleep(now.until(due));
        // A clock that was advanced between the two would let us sleep too long.
        if clock.now() == now {
            return sleep;
        }
    }
}

/// What a queue has to give.
enum Prospect {
    /// A job, now.
    Ready,
    /// None before this time.
    Due(Option<Timestamp>),
}

/// Looks without a write lock: most of what other processes do concerns other queues.
async fn prospect(store: &SqliteStore, queue: &Queue) -> Result<Prospect, Error> {
    let queue = queue.clone();
    let look = move |tx: &mut Tx<'_>| {
        let open = queue::find(tx.connection, &queue)?.filter(|known| !known.paused);
        let Some(known) = open else { return Ok(Prospect::Due(None)) };
        let mut ready = tx.connection.prepare_cached(include_str!("../../sql/jobs/ready.sql"))?;
        let is_ready = ready.query_row([known.number, tx.now.0], |row| row.get(0))?;
        Ok(if is_ready { Prospect::Ready } else { Prospect::Due(queue::next_due(tx, known.number)?) })
    };
    store.read(look).await
}

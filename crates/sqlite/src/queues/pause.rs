//! `pause`, and the change that `resume` shares with it.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::name::Queue;
use tidemill_core::wake::Wake;

use super::queue_row;
use crate::connection::{Cost, Tx};
use crate::store::SqliteStore;

pub(crate) async fn pause(store: &SqliteStore, queue: &Queue) -> Result<(), Error> {
    set_paused(store, queue, true).await
}

pub(super) async fn set_paused(store: &SqliteStore, queue: &Queue, paused: bool) -> Result<(), Error> {
    let queue = queue.clone();
    let work = move |tx: &mut Tx<'_>| {
        let row = queue_row::find_or_insert(tx.connection, &queue)?;
        let mut pause = tx.connection.prepare_cached(sql!("queues/pause"))?;
        pause.execute(params![row.number, paused])?;
        tx.wakes.add(Wake::all_waiters(queue.clone()));
        Ok(())
    };
    store.write(Cost::change(1), work).await
}

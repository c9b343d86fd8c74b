//! `drain`: orders a worker to drain.

use rusqlite::params;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::ORDER_TIMEOUT;
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Store};

use super::run;
use crate::connection::{Cost, Tx};
use crate::store::SqliteStore;

pub(super) async fn drain(store: &SqliteStore, worker: &WorkerKey) -> Result<bool, Error> {
    let worker = worker.clone();
    let work = move |tx: &mut Tx<'_>| {
        let order = sql!("fleet/drain");
        let exists = run(tx, order, params![worker.to_string(), tx.now.after(ORDER_TIMEOUT).0])? > 0;
        if exists {
            tx.wakes.add(Wake::Worker(worker.clone()));
        }
        Ok(exists)
    };
    let exists = store.write(Cost::change(1), work).await?;
    // The caller is often a command that exits at once.
    store.bus().flush().await;
    Ok(exists)
}

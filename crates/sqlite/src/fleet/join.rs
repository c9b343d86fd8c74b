//! `join`: enters workers into the fleet.

use tidemill_core::store::fleet::WorkerEntry;
use tidemill_core::{Error, Timestamp};

use super::worker_row::{delete, insert};
use crate::connection::{Cost, Tx};
use crate::store::SqliteStore;

pub(super) async fn join(store: &SqliteStore, workers: &[WorkerEntry]) -> Result<(), Error> {
    workers.iter().try_for_each(WorkerEntry::check)?;
    let workers = workers.to_vec();
    let work = move |tx: &mut Tx<'_>| {
        for worker in &workers {
            delete(tx, &worker.id)?;
            insert(tx, worker, Timestamp(0))?;
        }
        Ok(())
    };
    store.write(Cost::growth(1).without_sync(), work).await
}

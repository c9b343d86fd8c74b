//! `part`: removes workers from the fleet.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;

use super::worker_row::delete;
use crate::connection::{Cost, Tx};
use crate::store::SqliteStore;

pub(super) async fn part(store: &SqliteStore, workers: &[WorkerKey]) -> Result<(), Error> {
    let workers = workers.to_vec();
    let work = move |tx: &mut Tx<'_>| workers.iter().try_for_each(|worker| delete(tx, worker).map(drop));
    store.write(Cost::change(1).without_sync(), work).await
}

//! `get_worker`: reads one worker.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::WorkerInfo;

use super::{first, row};
use crate::store::SqliteStore;

pub(super) async fn get_worker(store: &SqliteStore, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
    let (id, find) = (worker.to_string(), sql!("fleet/get_worker"));
    store.read(move |tx| first(tx, find, params![tx.now.0, id], row::worker_info)).await
}

//! `list_workers`: pages of workers.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{ListWorkersParams, WorkerInfo};

use super::page::page;
use super::{all, row};
use crate::store::SqliteStore;

pub(super) async fn list_workers(
    store: &SqliteStore,
    list: ListWorkersParams<'_>,
) -> Result<Page<WorkerInfo>, Error> {
    let (after, limit) = (list.cursor.unwrap_or_default(), list.limit);
    let max = i64::try_from(limit).unwrap_or(i64::MAX);
    let kind = list.kind.cloned();
    let read = store.read(move |tx| match &kind {
        None => {
            let list = sql!("fleet/list_workers");
            all(tx, list, params![tx.now.0, after, max], row::worker_info)
        }
        Some(kind) => {
            let list = sql!("fleet/list_workers_by_kind");
            all(tx, list, params![tx.now.0, after, max, kind.as_str()], row::worker_info)
        }
    });
    Ok(page(read.await?, limit, |info| info.worker.id.to_string()))
}

//! `list_sessions`: pages of sessions.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo};

use super::page::page;
use super::{all, row};
use crate::store::SqliteStore;

pub(super) async fn list_sessions(
    store: &SqliteStore,
    list: ListSessionsParams<'_>,
) -> Result<Page<SessionInfo>, Error> {
    let (after, limit) = (list.cursor.unwrap_or_default(), list.limit);
    let max = i64::try_from(limit).unwrap_or(i64::MAX);
    let worker = list.worker.map(WorkerKey::to_string);
    let read = store.read(move |tx| match &worker {
        None => {
            let list = sql!("fleet/list_sessions");
            all(tx, list, params![tx.now.0, after, max], row::session_info)
        }
        Some(worker) => {
            let list = sql!("fleet/list_sessions_by_worker");
            all(tx, list, params![tx.now.0, after, max, worker], row::session_info)
        }
    });
    Ok(page(read.await?, limit, |info| info.session.to_string()))
}

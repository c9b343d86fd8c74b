//! Looking at the fleet.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{
    ListSessionsParams, ListWorkersParams, SessionInfo, WaitingInfo, WorkerInfo,
};

use super::{all, first, row};
use crate::store::SqliteStore;

pub(super) async fn member(store: &SqliteStore, member: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
    let (id, find) = (member.to_string(), include_str!("../../sql/members/find.sql"));
    store.read(move |tx| first(tx, find, params![tx.now.0, id], row::member)).await
}

pub(super) async fn members(
    store: &SqliteStore,
    list: ListWorkersParams<'_>,
) -> Result<Page<WorkerInfo>, Error> {
    let (after, limit) = (list.cursor.unwrap_or_default(), list.limit);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let kind = list.kind.cloned();
    let read = store.read(move |tx| match &kind {
        None => {
            let list = include_str!("../../sql/members/list.sql");
            all(tx, list, params![tx.now.0, after, most], row::member)
        }
        Some(kind) => {
            let list = include_str!("../../sql/members/list_of.sql");
            all(tx, list, params![tx.now.0, after, most, kind.as_str()], row::member)
        }
    });
    Ok(page(read.await?, limit, |info| info.worker.id.to_string()))
}

pub(super) async fn session(store: &SqliteStore, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
    let (id, find) = (session.to_string(), include_str!("../../sql/sessions/find.sql"));
    store.read(move |tx| first(tx, find, params![tx.now.0, id], row::session)).await
}

pub(super) async fn sessions(
    store: &SqliteStore,
    list: ListSessionsParams<'_>,
) -> Result<Page<SessionInfo>, Error> {
    let (after, limit) = (list.cursor.unwrap_or_default(), list.limit);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let member = list.worker.map(WorkerKey::to_string);
    let read = store.read(move |tx| match &member {
        None => {
            let list = include_str!("../../sql/sessions/list.sql");
            all(tx, list, params![tx.now.0, after, most], row::session)
        }
        Some(member) => {
            let list = include_str!("../../sql/sessions/list_of.sql");
            all(tx, list, params![tx.now.0, after, most, member], row::session)
        }
    });
    Ok(page(read.await?, limit, |info| info.session.to_string()))
}

pub(super) async fn lines(store: &SqliteStore) -> Result<Vec<WaitingInfo>, Error> {
    let lines = include_str!("../../sql/tickets/lines.sql");
    store.read(move |tx| all(tx, lines, [tx.now.0], row::line)).await
}

/// A page that is full may have another after it, from its last item on.
fn page<T>(items: Vec<T>, limit: usize, place: impl FnOnce(&T) -> String) -> Page<T> {
    let next = items.last().filter(|_| items.len() == limit).map(place);
    Page { items, next }
}

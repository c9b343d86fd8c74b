//! Looking at the fleet.

use tidemill_core::Error;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{
    ListSessionsParams, ListWorkersParams, SessionInfo, WaitingInfo, WorkerInfo,
};
use tokio_postgres::Row;

use super::row;
use crate::Inner;
use crate::sql::{LINES, MEMBER, MEMBERS, MEMBERS_OF, SESSION, SESSIONS, SESSIONS_OF};

pub(super) async fn member(inner: &Inner, member: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
    let rows = inner.pool.query(&MEMBER, &[&member.to_string()]).await?;
    rows.first().map(row::member).transpose()
}

pub(super) async fn members(inner: &Inner, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error> {
    let (after, most) = (list.cursor.unwrap_or_default(), most(list.limit));
    let rows = match list.kind {
        None => inner.pool.query(&MEMBERS, &[&after, &most]).await?,
        Some(kind) => inner.pool.query(&MEMBERS_OF, &[&after, &most, &kind.as_str()]).await?,
    };
    page(&rows, list.limit, row::member)
}

pub(super) async fn session(inner: &Inner, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
    let rows = inner.pool.query(&SESSION, &[&session.as_str()]).await?;
    rows.first().map(row::session).transpose()
}

pub(super) async fn sessions(
    inner: &Inner,
    list: ListSessionsParams<'_>,
) -> Result<Page<SessionInfo>, Error> {
    let (after, most) = (list.cursor.unwrap_or_default(), most(list.limit));
    let rows = match list.worker {
        None => inner.pool.query(&SESSIONS, &[&after, &most]).await?,
        Some(member) => inner.pool.query(&SESSIONS_OF, &[&after, &most, &member.to_string()]).await?,
    };
    page(&rows, list.limit, row::session)
}

pub(super) async fn lines(inner: &Inner) -> Result<Vec<WaitingInfo>, Error> {
    inner.pool.query(&LINES, &[]).await?.iter().map(row::line).collect()
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A page that is full may have another after it, from its last row on.
fn page<T>(rows: &[Row], limit: usize, read: impl Fn(&Row) -> Result<T, Error>) -> Result<Page<T>, Error> {
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.get("id"));
    Ok(Page { items: rows.iter().map(read).collect::<Result<_, _>>()?, next })
}

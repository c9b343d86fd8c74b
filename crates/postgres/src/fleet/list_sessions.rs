//! `list_sessions`: pages of sessions.

use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo};

use super::page::{max_rows, page};
use super::row;
use crate::Inner;
use crate::sql::{LIST_SESSIONS, LIST_SESSIONS_BY_WORKER};

pub(super) async fn list_sessions(
    inner: &Inner,
    list: ListSessionsParams<'_>,
) -> Result<Page<SessionInfo>, Error> {
    let (after, max) = (list.cursor.unwrap_or_default(), max_rows(list.limit));
    let rows = match list.worker {
        None => inner.pool.query(&LIST_SESSIONS, &[&after, &max]).await?,
        Some(worker) => {
            inner.pool.query(&LIST_SESSIONS_BY_WORKER, &[&after, &max, &worker.to_string()]).await?
        }
    };
    page(&rows, list.limit, row::session_info)
}

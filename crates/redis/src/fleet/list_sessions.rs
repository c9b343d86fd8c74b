//! `list_sessions`: a page of sessions.

use redis::Value;
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo};
use tidemill_core::{Error, Timestamp};

use super::list_workers::{duration, is_set, page_size, read_page};
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{bytes, int, text};
use crate::store::RedisStore;

impl RedisStore {
    /// The list is ordered by worker and session; a blank sorts before every character of a name.
    pub(super) async fn list_sessions(
        &self,
        list: ListSessionsParams<'_>,
    ) -> Result<Page<SessionInfo>, Error> {
        let (first, end) = match list.worker {
            Some(member) => (format!("[{member} "), format!("({member}!")),
            None => ("-".to_owned(), "+".to_owned()),
        };
        let args = NamedArgs::new()
            .with("first", list.cursor.map_or(first, |cursor| format!("({cursor}")))
            .with("last", end)
            .with("limit", page_size(list.limit));
        read_page(self.call_fleet(&self.fleet_state.scripts.list_sessions, args).await?, read_session)
    }
}

pub(super) fn read_session(parts: Vec<Value>) -> Option<SessionInfo> {
    let mut parts = parts.into_iter();
    Some(SessionInfo {
        session: text(parts.next()?)?.parse().ok()?,
        worker: text(parts.next()?)?.parse().ok()?,
        endpoint: text(parts.next()?)?,
        offer: text(parts.next()?)?.parse().ok(),
        holder: text(parts.next()?)?.parse().ok()?,
        connected: is_set(&parts.next()?),
        closing: is_set(&parts.next()?),
        keep: duration(&parts.next()?)?,
        started_at: Timestamp(int(&parts.next()?)?),
        until: Timestamp(int(&parts.next()?)?),
        detail: bytes(parts.next()?)?,
    })
}

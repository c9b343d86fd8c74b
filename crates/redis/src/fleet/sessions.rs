//! Looking at sessions, and at the lines of those who have none yet.

use redis::Value;
use tidemill_core::fleet::{SessionId, WorkerDefaults};
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo, WaitingInfo};
use tidemill_core::{Error, Timestamp};

use super::look::{duration, is_set, read_page, width};
use crate::error::odd_answer;
use crate::store::RedisStore;
use crate::value::{array, bytes, int, text};

impl RedisStore {
    pub(super) async fn find_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
        let call = self
            .call_on_fleet(&self.registry.scripts.sessions, WorkerDefaults::default())
            .arg("one")
            .arg(session.as_str());
        Ok(read_page(self.ask_fleet(call).await?, info)?.items.pop())
    }

    /// The list is ordered by member and session; a blank is before everything that a member's name may have.
    pub(super) async fn list_sessions(
        &self,
        list: ListSessionsParams<'_>,
    ) -> Result<Page<SessionInfo>, Error> {
        let (first, end) = match list.member {
            Some(member) => (format!("[{member} "), format!("({member}!")),
            None => ("-".to_owned(), "+".to_owned()),
        };
        let call = self
            .call_on_fleet(&self.registry.scripts.sessions, WorkerDefaults::default())
            .arg("page")
            .arg(list.cursor.map_or(first, |cursor| format!("({cursor}")))
            .arg(end)
            .arg(width(list.limit));
        read_page(self.ask_fleet(call).await?, info)
    }

    pub(super) async fn list_lines(&self) -> Result<Vec<WaitingInfo>, Error> {
        let call = self.call_on_fleet(&self.registry.scripts.lines, WorkerDefaults::default());
        let lines = array(self.ask_fleet(call).await?).ok_or_else(|| odd_answer("lines"))?;
        Ok(lines.into_iter().filter_map(|parts| line(array(parts)?)).collect())
    }
}

fn info(parts: Vec<Value>) -> Option<SessionInfo> {
    let mut parts = parts.into_iter();
    Some(SessionInfo {
        session: text(parts.next()?)?.parse().ok()?,
        member: text(parts.next()?)?.parse().ok()?,
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

fn line(parts: Vec<Value>) -> Option<WaitingInfo> {
    let mut parts = parts.into_iter();
    Some(WaitingInfo {
        kind: text(parts.next()?)?.parse().ok()?,
        offer: text(parts.next()?)?.parse().ok()?,
        waiting: u32::try_from(int(&parts.next()?)?).ok()?,
    })
}

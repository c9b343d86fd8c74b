//! `get_session`: one session.

use tidemill_core::Error;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::SessionInfo;

use super::list_sessions::read_session;
use super::list_workers::read_page;
use crate::connection::named_args::NamedArgs;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn find_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
        let args = NamedArgs::new().with("session", session.as_str());
        let reply = self.call_fleet(&self.fleet_state.scripts.list_sessions, args).await?;
        Ok(read_page(reply, read_session)?.items.pop())
    }
}

//! Asking for a session to be closed.

use tidemill_core::Error;
use tidemill_core::fleet::SessionId;

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::int;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn close_session(&self, session: &SessionId) -> Result<bool, Error> {
        let args = NamedArgs::new().with("session", session.as_str());
        Ok(int(&self.call_fleet(&self.fleet_state.scripts.close, args).await?) == Some(1))
    }
}

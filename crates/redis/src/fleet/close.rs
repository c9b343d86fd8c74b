//! Asking for a session to be closed.

use tidemill_core::Error;
use tidemill_core::fleet::{SessionId, WorkerDefaults};

use crate::connection::reply::int;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn close_session(&self, session: &SessionId) -> Result<bool, Error> {
        let call = self
            .fleet_script_call(&self.fleet_state.scripts.close, WorkerDefaults::default())
            .arg(session.as_str());
        Ok(int(&self.call_fleet(call).await?) == Some(1))
    }
}

//! `get_session`: reads one session.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::SessionInfo;

use super::{first, row};
use crate::store::SqliteStore;

pub(super) async fn get_session(
    store: &SqliteStore,
    session: &SessionId,
) -> Result<Option<SessionInfo>, Error> {
    let (id, find) = (session.to_string(), sql!("fleet/get_session"));
    store.read(move |tx| first(tx, find, params![tx.now.0, id], row::session_info)).await
}

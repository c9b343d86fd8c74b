//! `get_session`: reads one session.

use tidemill_core::Error;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::SessionInfo;

use super::row;
use crate::Inner;
use crate::sql::GET_SESSION;

pub(super) async fn get_session(inner: &Inner, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
    let rows = inner.pool.query(&GET_SESSION, &[&session.as_str()]).await?;
    rows.first().map(row::session_info).transpose()
}

//! `close`: asks the holder of a session to end it.

use tidemill_core::fleet::SessionId;
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Store};

use super::run;
use super::session_row::{after_end, find};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

/// Deletes a session, whatever its holder.
pub(super) const DELETE_SESSION: &str = "DELETE FROM tidemill_sessions WHERE id = ?1";

pub(super) async fn close(store: &SqliteStore, session: &SessionId) -> Result<bool, Error> {
    let session = session.clone();
    let existed = store.write(Cost::change(1), move |tx| close_one(tx, &session)).await?;
    // The caller is often a command that exits at once.
    store.bus().flush().await;
    Ok(existed)
}

fn close_one(tx: &mut Tx<'_>, session: &SessionId) -> Result<bool, RequestError> {
    let Some(row) = find(tx, session)? else { return Ok(false) };
    if row.connected {
        run(tx, sql!("fleet/close"), [session.as_str()])?;
    } else {
        run(tx, DELETE_SESSION, [session.as_str()])?;
        after_end(tx, &row.worker)?;
    }
    // A client may be about to connect to it.
    tx.wakes.add(Wake::Session(session.clone()));
    Ok(true)
}

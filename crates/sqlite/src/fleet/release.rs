//! `release`: ends sessions, or the wait for one.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::fleet::WorkerKind;
use tidemill_core::store::fleet::ReleaseParams;

use super::row::worker_key;
use super::session_row::after_end;
use super::{first, waiters};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

/// Deletes the ticket of a session, if this holder has it.
const RELEASE_WAITER: &str =
    "DELETE FROM tidemill_tickets WHERE session = ?1 AND holder = ?2 AND until > ?3 RETURNING kind";

pub(super) async fn release(store: &SqliteStore, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
    let releases = release.to_vec();
    let work = move |tx: &mut Tx<'_>| releases.iter().map(|release| release_one(tx, release)).collect();
    store.write(Cost::change(release.len()).without_sync(), work).await
}

/// Ends a session or, if there is none, the wait for one.
fn release_one(tx: &mut Tx<'_>, release: &ReleaseParams) -> Result<bool, RequestError> {
    let key = params![release.session.as_str(), release.holder.as_str(), tx.now.0];
    let session = sql!("fleet/release");
    if let Some(worker) = first(tx, session, key, |row| worker_key(row, 0))? {
        after_end(tx, &worker)?;
        return Ok(true);
    }
    let kind = first(tx, RELEASE_WAITER, key, |row| Ok(WorkerKind::new(row.get_ref(0)?.as_str()?)?))?;
    kind.as_ref().map(|kind| waiters::wake(tx, kind)).transpose()?;
    Ok(kind.is_some())
}

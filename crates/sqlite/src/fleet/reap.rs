//! `reap`: removes dead workers, expired sessions and abandoned waits.

use std::collections::BTreeSet;

use tidemill_core::Error;
use tidemill_core::fleet::{WorkerKey, WorkerKind};
use tidemill_core::store::fleet::Reaped;

use super::row::worker_key;
use super::{all, session_row, waiters, worker_row};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

/// Workers without a recent heartbeat, the most stale first.
const LIST_STALE_WORKERS: &str =
    "SELECT id FROM tidemill_members WHERE stale_at <= ?1 ORDER BY stale_at LIMIT ?2";

/// Deletes expired tickets.
const REAP_WAITERS: &str = "
    DELETE FROM tidemill_tickets
    WHERE number IN (SELECT number FROM tidemill_tickets WHERE until <= ?1 ORDER BY until LIMIT ?2)
        RETURNING kind";

/// How many rows of each kind one call removes: other requests have to run.
const MAX_REAPED: i64 = 500;

pub(super) async fn reap(store: &SqliteStore) -> Result<Reaped, Error> {
    store.write(Cost::change(1).without_sync(), reap_batch).await
}

fn reap_batch(tx: &mut Tx<'_>) -> Result<Reaped, RequestError> {
    let key = [tx.now.0, MAX_REAPED];
    let dead = all(tx, LIST_STALE_WORKERS, key, |row| worker_key(row, 0))?;
    let mut reaped = Reaped::default();
    for worker in &dead {
        reaped.sessions += worker_row::delete(tx, worker)? as u64;
    }
    reaped.workers = dead;
    let expired = all(tx, sql!("fleet/reap"), key, |row| worker_key(row, 0))?;
    reaped.sessions += expired.len() as u64;
    for worker in expired.into_iter().collect::<BTreeSet<WorkerKey>>() {
        session_row::after_end(tx, &worker)?;
    }
    let kind = |row: &rusqlite::Row<'_>| Ok(WorkerKind::new(row.get_ref(0)?.as_str()?)?);
    let abandoned = all(tx, REAP_WAITERS, key, kind)?;
    reaped.waiting = abandoned.len() as u64;
    for kind in abandoned.into_iter().collect::<BTreeSet<_>>() {
        waiters::wake(tx, &kind)?;
    }
    Ok(reaped)
}

//! Removing who is dead, and what has run out.

use std::collections::BTreeSet;

use tidemill_core::Error;
use tidemill_core::fleet::{WorkerKey, WorkerKind};
use tidemill_core::store::fleet::Reaped;

use super::row::member_id;
use super::{all, line, members, sessions};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

/// How many of each one call removes: others want to write too.
const BATCH: i64 = 500;

pub(super) async fn reap(store: &SqliteStore) -> Result<Reaped, Error> {
    store.write(Cost::change(1).fleeting(), reap_some).await
}

fn reap_some(tx: &mut Tx<'_>) -> Result<Reaped, Failure> {
    let key = [tx.now.0, BATCH];
    let dead = all(tx, include_str!("../../sql/members/stale.sql"), key, |row| member_id(row, 0))?;
    let mut reaped = Reaped::default();
    for member in &dead {
        reaped.sessions += members::remove(tx, member)? as u64;
    }
    reaped.workers = dead;
    let over = all(tx, include_str!("../../sql/sessions/reap.sql"), key, |row| member_id(row, 0))?;
    reaped.sessions += over.len() as u64;
    for member in over.into_iter().collect::<BTreeSet<WorkerKey>>() {
        sessions::ended(tx, &member)?;
    }
    let kind = |row: &rusqlite::Row<'_>| Ok(WorkerKind::new(row.get_ref(0)?.as_str()?)?);
    let gone = all(tx, include_str!("../../sql/tickets/reap.sql"), key, kind)?;
    reaped.waiting = gone.len() as u64;
    for kind in gone.into_iter().collect::<BTreeSet<_>>() {
        line::call_next(tx, &kind)?;
    }
    Ok(reaped)
}

//! `beat`: heartbeats of workers.

use rusqlite::params;
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerOrders};
use tidemill_core::{Error, Timestamp};

use super::first;
use super::row::small;
use super::worker_row::{insert, write_entry};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::row;
use crate::store::SqliteStore;

/// What a worker receives in reply to a heartbeat.
const FIND_ORDERS: &str = "
    SELECT ordered_until > ?2, (SELECT count(*) FROM tidemill_sessions WHERE member = ?1
        AND until > ?2), lifetime
    FROM tidemill_members WHERE id = ?1";

pub(super) async fn beat(store: &SqliteStore, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
    beat.workers.iter().try_for_each(WorkerEntry::check)?;
    let (workers, grace) = (beat.workers.to_vec(), beat.grace);
    let work = move |tx: &mut Tx<'_>| {
        let grace_until = tx.now.after(grace);
        workers.iter().map(|worker| beat_one(tx, worker, grace_until)).collect()
    };
    // Not rejected when the disk is full: a worker without heartbeats is taken for dead.
    store.write(Cost::change(beat.workers.len()).without_sync(), work).await
}

fn beat_one(
    tx: &mut Tx<'_>,
    worker: &WorkerEntry,
    grace_until: Timestamp,
) -> Result<WorkerOrders, RequestError> {
    let is_known = write_entry(tx, sql!("fleet/beat"), worker, grace_until)? > 0;
    if !is_known {
        insert(tx, worker, grace_until)?;
    }
    let found = first(tx, FIND_ORDERS, params![worker.id.to_string(), tx.now.0], |row| {
        Ok(WorkerOrders { drain: row.get(0)?, active: small(row, 1)?, lifetime: row::count(row, 2)? })
    })?;
    Ok(found.unwrap_or(WorkerOrders { drain: false, active: 0, lifetime: 0 }))
}

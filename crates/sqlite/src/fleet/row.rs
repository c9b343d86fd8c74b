//! Conversion of rows of the fleet's tables into core types.

use std::time::Duration;

use rusqlite::Row;
use tidemill_core::fleet::{Capacity, Offer, SessionId, WorkerKey, WorkerKind};
use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerStatus};
use tidemill_core::{Error, Timestamp};

use crate::error::RequestError;
use crate::row::{body, count};

pub(super) fn status_text(status: WorkerStatus) -> &'static str {
    match status {
        WorkerStatus::Available => "available",
        WorkerStatus::Draining => "draining",
    }
}

fn status(row: &Row<'_>, column: usize) -> Result<WorkerStatus, RequestError> {
    match row.get_ref(column)?.as_str()? {
        "available" => Ok(WorkerStatus::Available),
        "draining" => Ok(WorkerStatus::Draining),
        other => Err(Error::Corrupt(format!("a worker has the status {other:?}")).into()),
    }
}

pub(super) fn worker_key(row: &Row<'_>, column: usize) -> Result<WorkerKey, RequestError> {
    Ok(row.get_ref(column)?.as_str()?.parse::<WorkerKey>()?)
}

/// A number that is small and never negative.
pub(super) fn small(row: &Row<'_>, column: usize) -> Result<u32, RequestError> {
    Ok(u32::try_from(row.get::<_, i64>(column)?.max(0)).unwrap_or(u32::MAX))
}

fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, RequestError> {
    Ok(Timestamp(row.get(column)?))
}

fn duration(row: &Row<'_>, column: usize) -> Result<Duration, RequestError> {
    Ok(Duration::from_millis(count(row, column)?))
}

/// Reads the columns of `fleet/get_worker.sql` and of the lists of workers.
pub(super) fn worker_info(row: &Row<'_>) -> Result<WorkerInfo, RequestError> {
    let worker = WorkerEntry {
        id: worker_key(row, 0)?,
        offer: Offer::new(row.get_ref(1)?.as_str()?)?,
        endpoint: row.get(2)?,
        status: status(row, 3)?,
        capacity: Capacity { concurrent: small(row, 4)?, lifetime: small(row, 5)? },
        beat_timeout: duration(row, 6)?,
        detail: body(row, 7)?,
    };
    Ok(WorkerInfo {
        worker,
        last_beat: time(row, 8)?,
        is_fresh: row.get(9)?,
        drain_ordered: row.get(10)?,
        active: small(row, 11)?,
        lifetime: count(row, 12)?,
    })
}

/// Reads the columns of `fleet/get_session.sql` and of the lists of sessions.
pub(super) fn session_info(row: &Row<'_>) -> Result<SessionInfo, RequestError> {
    let offer = row.get::<_, Option<String>>(3)?;
    Ok(SessionInfo {
        session: SessionId::new(row.get_ref(0)?.as_str()?)?,
        worker: worker_key(row, 1)?,
        endpoint: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
        offer: offer.map(|offer| Offer::new(&offer)).transpose()?,
        holder: HolderId::new(row.get_ref(4)?.as_str()?)?,
        connected: row.get(5)?,
        closing: row.get(6)?,
        keep: duration(row, 7)?,
        started_at: time(row, 8)?,
        until: time(row, 9)?,
        detail: body(row, 10)?,
    })
}

pub(super) fn waiting_info(row: &Row<'_>) -> Result<WaitingInfo, RequestError> {
    let kind = WorkerKind::new(row.get_ref(0)?.as_str()?)?;
    let offer = Offer::new(row.get_ref(1)?.as_str()?)?;
    Ok(WaitingInfo { kind, offer, waiting: small(row, 2)? })
}

//! What a row of the fleet's tables says, in the words of the core.

use std::time::Duration;

use rusqlite::Row;
use tidemill_core::fleet::{Capacity, Offer, SessionId, WorkerKey, WorkerKind};
use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerStatus};
use tidemill_core::{Error, Timestamp};

use crate::error::Failure;
use crate::row::{body, count};

pub(super) fn status_word(status: WorkerStatus) -> &'static str {
    match status {
        WorkerStatus::Available => "available",
        WorkerStatus::Draining => "draining",
    }
}

fn status(row: &Row<'_>, column: usize) -> Result<WorkerStatus, Failure> {
    match row.get_ref(column)?.as_str()? {
        "available" => Ok(WorkerStatus::Available),
        "draining" => Ok(WorkerStatus::Draining),
        other => Err(Error::Corrupt(format!("a worker has the status {other:?}")).into()),
    }
}

pub(super) fn member_id(row: &Row<'_>, column: usize) -> Result<WorkerKey, Failure> {
    Ok(row.get_ref(column)?.as_str()?.parse::<WorkerKey>()?)
}

/// A number that is small and never negative.
pub(super) fn small(row: &Row<'_>, column: usize) -> Result<u32, Failure> {
    Ok(u32::try_from(row.get::<_, i64>(column)?.max(0)).unwrap_or(u32::MAX))
}

fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, Failure> {
    Ok(Timestamp(row.get(column)?))
}

fn length(row: &Row<'_>, column: usize) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(count(row, column)?))
}

/// The columns of `members/find.sql` and of the lists.
pub(super) fn member(row: &Row<'_>) -> Result<WorkerInfo, Failure> {
    let member = WorkerEntry {
        id: member_id(row, 0)?,
        offer: Offer::new(row.get_ref(1)?.as_str()?)?,
        endpoint: row.get(2)?,
        status: status(row, 3)?,
        capacity: Capacity { concurrent: small(row, 4)?, lifetime: small(row, 5)? },
        beat_timeout: length(row, 6)?,
        detail: body(row, 7)?,
    };
    Ok(WorkerInfo {
        worker: member,
        last_beat: time(row, 8)?,
        is_fresh: row.get(9)?,
        drain_ordered: row.get(10)?,
        active: small(row, 11)?,
        lifetime: count(row, 12)?,
    })
}

/// The columns of `sessions/find.sql` and of the lists.
pub(super) fn session(row: &Row<'_>) -> Result<SessionInfo, Failure> {
    let offer = row.get::<_, Option<String>>(3)?;
    Ok(SessionInfo {
        session: SessionId::new(row.get_ref(0)?.as_str()?)?,
        worker: member_id(row, 1)?,
        endpoint: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
        offer: offer.map(|offer| Offer::new(&offer)).transpose()?,
        holder: HolderId::new(row.get_ref(4)?.as_str()?)?,
        connected: row.get(5)?,
        closing: row.get(6)?,
        keep: length(row, 7)?,
        started_at: time(row, 8)?,
        until: time(row, 9)?,
        detail: body(row, 10)?,
    })
}

pub(super) fn line(row: &Row<'_>) -> Result<WaitingInfo, Failure> {
    let kind = WorkerKind::new(row.get_ref(0)?.as_str()?)?;
    let offer = Offer::new(row.get_ref(1)?.as_str()?)?;
    Ok(WaitingInfo { kind, offer, waiting: small(row, 2)? })
}

//! Conversion of rows of the fleet's tables into core types.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::fleet::{Capacity, Offer, SessionId, WorkerKey, WorkerKind};
use tidemill_core::store::fleet::{SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerStatus};
use tidemill_core::{Error, HolderId, Timestamp};
use tokio_postgres::Row;

use crate::jobs::corrupt;

pub(super) fn status_code(status: WorkerStatus) -> i16 {
    match status {
        WorkerStatus::Available => 0,
        WorkerStatus::Draining => 1,
    }
}

fn status_from_code(code: i16) -> Result<WorkerStatus, Error> {
    match code {
        0 => Ok(WorkerStatus::Available),
        1 => Ok(WorkerStatus::Draining),
        other => Err(Error::Corrupt(format!("a worker has the status {other}"))),
    }
}

pub(super) fn worker_key(text: &str) -> Result<WorkerKey, Error> {
    text.parse().map_err(|error: tidemill_core::name::InvalidName| corrupt(error))
}

pub(super) fn offer(text: &str) -> Result<Offer, Error> {
    Offer::new(text).map_err(corrupt)
}

pub(super) fn to_u32(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

pub(super) fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn duration(row: &Row, column: &str) -> Duration {
    Duration::from_millis(to_u64(row.get(column)))
}

pub(super) fn worker_info(row: &Row) -> Result<WorkerInfo, Error> {
    let worker = WorkerEntry {
        id: worker_key(row.get("id"))?,
        offer: offer(row.get("offer"))?,
        endpoint: row.get("endpoint"),
        status: status_from_code(row.get("status"))?,
        capacity: Capacity { concurrent: to_u32(row.get("concurrent")), lifetime: to_u32(row.get("most")) },
        beat_timeout: duration(row, "fresh"),
        detail: Bytes::copy_from_slice(row.get("detail")),
    };
    Ok(WorkerInfo {
        worker,
        last_beat: Timestamp(row.get("beat_at")),
        is_fresh: row.get("is_fresh"),
        drain_ordered: row.get("ordered"),
        active: to_u32(row.get("active")),
        lifetime: to_u64(row.get("lifetime")),
    })
}

pub(super) fn session_info(row: &Row) -> Result<SessionInfo, Error> {
    Ok(SessionInfo {
        session: SessionId::new(row.get("id")).map_err(corrupt)?,
        worker: worker_key(row.get("member"))?,
        endpoint: row.get::<_, Option<String>>("endpoint").unwrap_or_default(),
        offer: row.get::<_, Option<&str>>("offer").map(offer).transpose()?,
        holder: HolderId::new(row.get("holder")).map_err(corrupt)?,
        connected: row.get("connected"),
        closing: row.get("closing"),
        keep: duration(row, "keep"),
        started_at: Timestamp(row.get("started_at")),
        until: Timestamp(row.get("until")),
        detail: Bytes::copy_from_slice(row.get("detail")),
    })
}

pub(super) fn waiting_info(row: &Row) -> Result<WaitingInfo, Error> {
    let kind = WorkerKind::new(row.get("kind")).map_err(corrupt)?;
    Ok(WaitingInfo { kind, offer: offer(row.get("offer"))?, waiting: to_u32(row.get("waiting")) })
}

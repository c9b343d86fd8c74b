//! What a row of the fleet's tables says, in the words of the core.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::fleet::{Capacity, Offer, SessionId, WorkerKey, WorkerKind};
use tidemill_core::store::fleet::{SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerStatus};
use tidemill_core::{Error, HolderId, Timestamp};
use tokio_postgres::Row;

use crate::jobs::damaged;

pub(super) fn status_code(status: WorkerStatus) -> i16 {
    match status {
        WorkerStatus::Available => 0,
        WorkerStatus::Draining => 1,
    }
}

fn status(code: i16) -> Result<WorkerStatus, Error> {
    match code {
        0 => Ok(WorkerStatus::Available),
        1 => Ok(WorkerStatus::Draining),
        other => Err(Error::Corrupt(format!("a worker has the status {other}"))),
    }
}

pub(super) fn member_id(text: &str) -> Result<WorkerKey, Error> {
    text.parse().map_err(|error: tidemill_core::name::InvalidName| damaged(error))
}

pub(super) fn offer(text: &str) -> Result<Offer, Error> {
    Offer::new(text).map_err(damaged)
}

pub(super) fn small(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

pub(super) fn big(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn length(row: &Row, column: &str) -> Duration {
    Duration::from_millis(big(row.get(column)))
}

pub(super) fn member(row: &Row) -> Result<WorkerInfo, Error> {
    let member = WorkerEntry {
        id: member_id(row.get("id"))?,
        offer: offer(row.get("offer"))?,
        endpoint: row.get("endpoint"),
        status: status(row.get("status"))?,
        capacity: Capacity { concurrent: small(row.get("concurrent")), lifetime: small(row.get("most")) },
        beat_timeout: length(row, "fresh"),
        detail: Bytes::copy_from_slice(row.get("detail")),
    };
    Ok(WorkerInfo {
        worker: member,
        last_beat: Timestamp(row.get("beat_at")),
        is_fresh: row.get("is_fresh"),
        drain_ordered: row.get("ordered"),
        active: small(row.get("active")),
        lifetime: big(row.get("lifetime")),
    })
}

pub(super) fn session(row: &Row) -> Result<SessionInfo, Error> {
    Ok(SessionInfo {
        session: SessionId::new(row.get("id")).map_err(damaged)?,
        worker: member_id(row.get("member"))?,
        endpoint: row.get::<_, Option<String>>("endpoint").unwrap_or_default(),
        offer: row.get::<_, Option<&str>>("offer").map(offer).transpose()?,
        holder: HolderId::new(row.get("holder")).map_err(damaged)?,
        connected: row.get("connected"),
        closing: row.get("closing"),
        keep: length(row, "keep"),
        started_at: Timestamp(row.get("started_at")),
        until: Timestamp(row.get("until")),
        detail: Bytes::copy_from_slice(row.get("detail")),
    })
}

pub(super) fn line(row: &Row) -> Result<WaitingInfo, Error> {
    let kind = WorkerKind::new(row.get("kind")).map_err(damaged)?;
    Ok(WaitingInfo { kind, offer: offer(row.get("offer"))?, waiting: small(row.get("waiting")) })
}

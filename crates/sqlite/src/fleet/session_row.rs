//! The rows of sessions.

use bytes::Bytes;
use rusqlite::{named_params, params};
use tidemill_core::Timestamp;
use tidemill_core::clock::millis;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{AttachParams, LeaseParams};
use tidemill_core::wake::Wake;

use super::row::worker_key;
use super::{first, run, waiters, worker_row};
use crate::connection::Tx;
use crate::error::RequestError;

/// Inserts a session. It replaces an expired one with the same id.
const INSERT_SESSION: &str = "
    INSERT OR REPLACE INTO tidemill_sessions (id, member, holder, until, connected, keep,
        started_at, detail)
    VALUES (:id, :member, :holder, :until, :connected, :keep, :started_at, :detail)";

/// The worker, the holder and the state of a session.
const FIND_SESSION: &str =
    "SELECT member, holder, connected, closing FROM tidemill_sessions WHERE id = ?1 AND until > ?2";

/// A session to insert.
pub(super) struct NewSession<'a> {
    session: &'a SessionId,
    worker: &'a WorkerKey,
    holder: &'a HolderId,
    until: Timestamp,
    connected: bool,
    keep: i64,
    started_at: Timestamp,
    detail: &'a Bytes,
}

impl<'a> NewSession<'a> {
    /// A session that was just given a worker.
    pub(super) fn from_lease(lease: &'a LeaseParams, worker: &'a WorkerKey, now: Timestamp) -> Self {
        let LeaseParams { session, holder, ttl, keep, detail, .. } = lease;
        let (until, keep) = (now.after(*ttl.max(keep)), millis(*keep));
        Self { session, worker, holder, until, connected: false, keep, started_at: now, detail }
    }

    /// A session that its holder describes.
    pub(super) fn from_attach(attach: &'a AttachParams, now: Timestamp) -> Self {
        let AttachParams { session, worker, holder, ttl, keep, connected, detail, started_at, .. } = attach;
        let (until, keep) = (now.after(*ttl.max(keep)), millis(*keep));
        Self { session, worker, holder, until, connected: *connected, keep, started_at: *started_at, detail }
    }
}

pub(super) fn insert(tx: &Tx<'_>, new: &NewSession<'_>) -> Result<(), RequestError> {
    let session = named_params! {
        ":id": new.session.as_str(),
        ":member": new.worker.to_string(),
        ":holder": new.holder.as_str(),
        ":until": new.until.0,
        ":connected": new.connected,
        ":keep": new.keep,
        ":started_at": new.started_at.0,
        ":detail": &new.detail[..],
    };
    run(tx, INSERT_SESSION, session)?;
    Ok(())
}

/// Updates the worker of an ended session, and wakes its owner and the sessions that wait for its
/// kind.
pub(super) fn after_end(tx: &mut Tx<'_>, worker: &WorkerKey) -> Result<(), RequestError> {
    worker_row::free_slot(tx, worker)?;
    tx.wakes.add(Wake::Worker(worker.clone()));
    waiters::wake(tx, &worker.kind)
}

/// The holder and the state of a session.
pub(super) struct SessionRow {
    pub(super) worker: WorkerKey,
    pub(super) holder: String,
    pub(super) connected: bool,
    pub(super) closing: bool,
}

/// A session that has not expired.
pub(super) fn find(tx: &Tx<'_>, session: &SessionId) -> Result<Option<SessionRow>, RequestError> {
    first(tx, FIND_SESSION, params![session.as_str(), tx.now.0], |row| {
        let (worker, holder) = (worker_key(row, 0)?, row.get(1)?);
        Ok(SessionRow { worker, holder, connected: row.get(2)?, closing: row.get(3)? })
    })
}

//! How sessions begin and end.

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::clock::millis;
use tidemill_core::fleet::{SessionId, WorkerKey, WorkerKind};
use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{AttachParams, LeaseParams, ReleaseParams};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Timestamp};

use super::row::member_id;
use super::{first, line, members, run};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

/// A session to enter.
pub(super) struct New<'a> {
    session: &'a SessionId,
    member: &'a WorkerKey,
    holder: &'a HolderId,
    until: Timestamp,
    connected: bool,
    keep: i64,
    started_at: Timestamp,
    detail: &'a Bytes,
}

impl<'a> New<'a> {
    /// One that was just given a member.
    pub(super) fn given(lease: &'a LeaseParams, member: &'a WorkerKey, now: Timestamp) -> Self {
        let LeaseParams { session, holder, ttl, keep, detail, .. } = lease;
        let (until, keep) = (now.after(*ttl.max(keep)), millis(*keep));
        Self { session, member, holder, until, connected: false, keep, started_at: now, detail }
    }

    /// One that its holder describes.
    pub(super) fn described(attach: &'a AttachParams, now: Timestamp) -> Self {
        let AttachParams {
            session, worker: member, holder, ttl, keep, connected, detail, started_at, ..
        } = attach;
        let (until, keep) = (now.after(*ttl.max(keep)), millis(*keep));
        Self { session, member, holder, until, connected: *connected, keep, started_at: *started_at, detail }
    }
}

pub(super) fn enter(tx: &Tx<'_>, new: &New<'_>) -> Result<(), Failure> {
    let (session, member, holder) = (new.session.as_str(), new.member.to_string(), new.holder.as_str());
    let (connected, keep, detail) = (new.connected, new.keep, &new.detail[..]);
    let key = params![session, member, holder, new.until.0, connected, keep, new.started_at.0, detail];
    run(tx, include_str!("../../sql/sessions/enter.sql"), key)?;
    Ok(())
}

pub(super) async fn release(store: &SqliteStore, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
    let releases = release.to_vec();
    let work = move |tx: &mut Tx<'_>| releases.iter().map(|release| end(tx, release)).collect();
    store.write(Cost::change(release.len()).fleeting(), work).await
}

/// Ends a session or, if there is none, the wait for one.
fn end(tx: &mut Tx<'_>, release: &ReleaseParams) -> Result<bool, Failure> {
    let key = params![release.session.as_str(), release.holder.as_str(), tx.now.0];
    let session = include_str!("../../sql/sessions/release.sql");
    if let Some(member) = first(tx, session, key, |row| member_id(row, 0))? {
        ended(tx, &member)?;
        return Ok(true);
    }
    let ticket = include_str!("../../sql/tickets/release.sql");
    let kind = first(tx, ticket, key, |row| Ok(WorkerKind::new(row.get_ref(0)?.as_str()?)?))?;
    kind.as_ref().map(|kind| line::call_next(tx, kind)).transpose()?;
    Ok(kind.is_some())
}

/// A session on this member has ended.
pub(super) fn ended(tx: &mut Tx<'_>, member: &WorkerKey) -> Result<(), Failure> {
    members::vacate(tx, member)?;
    tx.announcements.add(Wake::Worker(member.clone()));
    line::call_next(tx, &member.kind)
}

pub(super) async fn close(store: &SqliteStore, session: &SessionId) -> Result<bool, Error> {
    let session = session.clone();
    let was_there = store.write(Cost::change(1), move |tx| ask_to_end(tx, &session)).await?;
    // Whoever asks for this is often a command that ends at once.
    store.bus().flush().await;
    Ok(was_there)
}

fn ask_to_end(tx: &mut Tx<'_>, session: &SessionId) -> Result<bool, Failure> {
    let Some(held) = find(tx, session)? else { return Ok(false) };
    if held.connected {
        run(tx, include_str!("../../sql/sessions/close.sql"), [session.as_str()])?;
    } else {
        run(tx, include_str!("../../sql/sessions/remove.sql"), [session.as_str()])?;
        ended(tx, &held.member)?;
    }
    // Somebody may be about to connect to it.
    tx.announcements.add(Wake::Session(session.clone()));
    Ok(true)
}

/// Who has a session, and how.
pub(super) struct Held {
    pub(super) member: WorkerKey,
    pub(super) holder: String,
    pub(super) connected: bool,
    pub(super) closing: bool,
}

/// A session whose time is not over.
pub(super) fn find(tx: &Tx<'_>, session: &SessionId) -> Result<Option<Held>, Failure> {
    let held = include_str!("../../sql/sessions/held.sql");
    first(tx, held, params![session.as_str(), tx.now.0], |row| {
        let (member, holder) = (member_id(row, 0)?, row.get(1)?);
        Ok(Held { member, holder, connected: row.get(2)?, closing: row.get(3)? })
    })
}

//! Holding sessions.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::store::fleet::{AttachParams, Attached};
use tidemill_core::wake::Wake;

use super::sessions::{Held, New, enter, find};
use super::{members, run};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

pub(super) async fn attach(store: &SqliteStore, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
    attach.iter().try_for_each(AttachParams::check)?;
    let attaches = attach.to_vec();
    let work = move |tx: &mut Tx<'_>| attaches.iter().map(|attach| hold(tx, attach)).collect();
    // Not refused when the disk is full: what runs would end.
    store.write(Cost::change(attach.len()).fleeting(), work).await
}

fn hold(tx: &mut Tx<'_>, attach: &AttachParams) -> Result<Attached, Failure> {
    match find(tx, &attach.session)? {
        Some(held) => extend(tx, attach, &held),
        None if attach.must_exist => Ok(Attached::Closing),
        None if members::is_full(tx, &attach.worker)? => Ok(Attached::Lost),
        None => {
            enter(tx, &New::described(attach, tx.now))?;
            members::wear(tx, &attach.worker)?;
            Ok(Attached::Held)
        }
    }
}

fn extend(tx: &mut Tx<'_>, attach: &AttachParams, held: &Held) -> Result<Attached, Failure> {
    let is_anothers = held.connected && held.holder != attach.holder.as_str();
    // A session that was given another member since is not the one that is held.
    if held.member != attach.worker || (is_anothers && !attach.take_over) {
        return Ok(Attached::Lost);
    }
    let until = tx.now.after(attach.ttl.max(attach.keep));
    let key = params![attach.session.as_str(), attach.holder.as_str(), until.0, attach.connected];
    run(tx, include_str!("../../sql/sessions/hold.sql"), key)?;
    members::recount(tx, &attach.worker, until)?;
    if is_anothers {
        tx.announcements.add(Wake::Session(attach.session.clone()));
    }
    Ok(if held.closing { Attached::Closing } else { Attached::Held })
}

//! `attach`: registers and renews the sessions that a holder has.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::store::fleet::{AttachParams, Attached};
use tidemill_core::wake::Wake;

use super::session_row::{NewSession, SessionRow, find, insert};
use super::{run, worker_row};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

pub(super) async fn attach(store: &SqliteStore, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
    attach.iter().try_for_each(AttachParams::check)?;
    let attaches = attach.to_vec();
    let work = move |tx: &mut Tx<'_>| attaches.iter().map(|attach| attach_one(tx, attach)).collect();
    // Not rejected when the disk is full: running sessions would end.
    store.write(Cost::change(attach.len()).without_sync(), work).await
}

fn attach_one(tx: &mut Tx<'_>, attach: &AttachParams) -> Result<Attached, RequestError> {
    match find(tx, &attach.session)? {
        Some(row) => extend(tx, attach, &row),
        None if attach.must_exist => Ok(Attached::Closing),
        None if worker_row::is_full(tx, &attach.worker)? => Ok(Attached::Lost),
        None => {
            insert(tx, &NewSession::from_attach(attach, tx.now))?;
            worker_row::count_session(tx, &attach.worker)?;
            Ok(Attached::Held)
        }
    }
}

fn extend(tx: &mut Tx<'_>, attach: &AttachParams, row: &SessionRow) -> Result<Attached, RequestError> {
    let has_other_holder = row.connected && row.holder != attach.holder.as_str();
    // A session that has since been given another worker is not the attached one.
    if row.worker != attach.worker || (has_other_holder && !attach.take_over) {
        return Ok(Attached::Lost);
    }
    let until = tx.now.after(attach.ttl.max(attach.keep));
    let key = params![attach.session.as_str(), attach.holder.as_str(), until.0, attach.connected];
    run(tx, sql!("fleet/attach"), key)?;
    worker_row::recheck_capacity(tx, &attach.worker, until)?;
    if has_other_holder {
        tx.wakes.add(Wake::Session(attach.session.clone()));
    }
    Ok(if row.closing { Attached::Closing } else { Attached::Held })
}

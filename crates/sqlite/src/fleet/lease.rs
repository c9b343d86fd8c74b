//! Giving a member to a client.

use rusqlite::params;
use tidemill_core::clock::millis;
use tidemill_core::fleet::Offer;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased};
use tidemill_core::{Error, Timestamp};

use super::choice::{Among, choose, workers};
use super::line::Turn;
use super::row::member_id;
use super::sessions::{New, ended, enter};
use super::{first, line, members, run};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

pub(super) async fn lease(store: &SqliteStore, lease: &LeaseParams) -> Result<Leased, Error> {
    lease.check()?;
    let lease = lease.clone();
    store.write(Cost::growth(1).fleeting(), move |tx| answer(tx, &lease)).await
}

fn answer(tx: &mut Tx<'_>, lease: &LeaseParams) -> Result<Leased, Failure> {
    let mut turn = Turn::of(tx, lease)?;
    match renew(tx, lease)? {
        Former::Held(grant) => return Ok(Leased::Granted(grant)),
        Former::GivenBack => turn.come_first(),
        Former::None => {}
    }
    let workers = workers(tx, lease)?;
    let among = turn.among(tx, lease)?;
    if let Some(grant) = give(tx, lease, &among, workers.available)? {
        line::leave(tx, &lease.session)?;
        line::call_next(tx, &lease.kind)?;
        return Ok(Leased::Granted(grant));
    }
    if turn.wait(tx, lease)? {
        return Ok(Leased::Waiting { ahead: turn.ahead, workers: workers.all });
    }
    Ok(Leased::Refused { waiting: turn.others, workers: workers.all })
}

/// What a session had when it asked.
enum Former {
    /// A member, which it keeps.
    Held(Grant),
    /// A member that did not answer, and which it has no more.
    GivenBack,
    /// None, or one that is gone.
    None,
}

/// The member that the session has already, unless it did not answer or is gone: then it is given back.
fn renew(tx: &mut Tx<'_>, lease: &LeaseParams) -> Result<Former, Failure> {
    let given = include_str!("../../sql/sessions/given.sql");
    let key = params![lease.session.as_str(), tx.now.0];
    let found = first(tx, given, key, |row| {
        let place = row.get::<_, Option<String>>(2)?.zip(row.get::<_, Option<String>>(3)?);
        Ok((member_id(row, 0)?, row.get::<_, i64>(1)?, place))
    })?;
    let Some((member, keep, place)) = found else { return Ok(Former::None) };
    let is_refused = lease.rejected.contains(&member);
    let Some((endpoint, offer)) = place.filter(|_| !is_refused) else {
        run(tx, include_str!("../../sql/sessions/remove.sql"), [lease.session.as_str()])?;
        ended(tx, &member)?;
        return Ok(if is_refused { Former::GivenBack } else { Former::None });
    };
    let until = Timestamp(tx.now.0.saturating_add(millis(lease.ttl).max(keep)));
    run(tx, include_str!("../../sql/sessions/renew.sql"), params![lease.session.as_str(), until.0])?;
    members::recount(tx, &member, until)?;
    Ok(Former::Held(Grant { worker: member, endpoint, offer: Offer::new(&offer)?, until }))
}

/// Gives the best member there is.
fn give(tx: &mut Tx<'_>, lease: &LeaseParams, among: &Among, workers: u32) -> Result<Option<Grant>, Failure> {
    let Some(member) = choose(tx, lease, among, workers)? else { return Ok(None) };
    enter(tx, &New::given(lease, &member, tx.now))?;
    members::wear(tx, &member)?;
    let until = tx.now.after(lease.ttl.max(lease.keep));
    first(tx, include_str!("../../sql/members/place.sql"), [member.to_string()], |row| {
        Ok(Grant {
            worker: member,
            endpoint: row.get(0)?,
            offer: Offer::new(row.get_ref(1)?.as_str()?)?,
            until,
        })
    })
}

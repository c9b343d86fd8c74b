//! Who is in the fleet: entering, living, leaving.

use rusqlite::params;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{BeatParams, ORDER_TIMEOUT, WorkerEntry, WorkerOrders};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Timestamp};

use super::row::{small, status_word};
use super::{first, run};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::row;
use crate::store::SqliteStore;

pub(super) async fn join(store: &SqliteStore, members: &[WorkerEntry]) -> Result<(), Error> {
    members.iter().try_for_each(WorkerEntry::check)?;
    let members = members.to_vec();
    let work = move |tx: &mut Tx<'_>| {
        for member in &members {
            remove(tx, &member.id)?;
            enter(tx, member, Timestamp(0))?;
        }
        Ok(())
    };
    store.write(Cost::growth(1).fleeting(), work).await
}

pub(super) async fn beat(store: &SqliteStore, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
    beat.workers.iter().try_for_each(WorkerEntry::check)?;
    let (members, grace) = (beat.workers.to_vec(), beat.grace);
    let work = move |tx: &mut Tx<'_>| {
        let until = tx.now.after(grace);
        members.iter().map(|member| live(tx, member, until)).collect()
    };
    // Not refused when the disk is full: whoever does not beat is taken for dead.
    store.write(Cost::change(beat.workers.len()).fleeting(), work).await
}

fn live(tx: &mut Tx<'_>, member: &WorkerEntry, grace_until: Timestamp) -> Result<WorkerOrders, Failure> {
    let beat = include_str!("../../sql/members/beat.sql");
    let said = rusqlite::params_from_iter(described(member, tx.now, grace_until));
    let is_known = tx.connection.prepare_cached(beat)?.execute(said)? > 0;
    if !is_known {
        enter(tx, member, grace_until)?;
    }
    let orders = include_str!("../../sql/members/orders.sql");
    let found = first(tx, orders, params![member.id.to_string(), tx.now.0], |row| {
        Ok(WorkerOrders { drain: row.get(0)?, active: small(row, 1)?, lifetime: row::count(row, 2)? })
    })?;
    Ok(found.unwrap_or(WorkerOrders { drain: false, active: 0, lifetime: 0 }))
}

fn enter(tx: &mut Tx<'_>, member: &WorkerEntry, grace_until: Timestamp) -> Result<(), Failure> {
    let enter = include_str!("../../sql/members/enter.sql");
    run(tx, enter, rusqlite::params_from_iter(described(member, tx.now, grace_until)))?;
    tx.announcements.add(Wake::Capacity(member.id.kind.clone()));
    Ok(())
}

/// What a member says of itself, in the order of the statements' parameters.
fn described(member: &WorkerEntry, now: Timestamp, grace_until: Timestamp) -> [rusqlite::types::Value; 12] {
    let WorkerEntry { id, offer, endpoint, status, capacity: room, beat_timeout: fresh, detail } = member;
    [
        id.to_string().into(),
        id.kind.to_string().into(),
        offer.to_string().into(),
        endpoint.clone().into(),
        status_word(*status).to_owned().into(),
        i64::from(room.concurrent).into(),
        i64::from(room.lifetime).into(),
        millis(*fresh).into(),
        detail.to_vec().into(),
        now.0.into(),
        now.after(*fresh).0.into(),
        grace_until.0.into(),
    ]
}

pub(super) async fn part(store: &SqliteStore, members: &[WorkerKey]) -> Result<(), Error> {
    let members = members.to_vec();
    let work = move |tx: &mut Tx<'_>| members.iter().try_for_each(|member| remove(tx, member).map(drop));
    store.write(Cost::change(1).fleeting(), work).await
}

/// Removes a member with all it has. Returns how many sessions that were.
pub(super) fn remove(tx: &Tx<'_>, member: &WorkerKey) -> Result<usize, Failure> {
    let id = member.to_string();
    let sessions = run(tx, include_str!("../../sql/sessions/remove_of.sql"), [&id])?;
    run(tx, include_str!("../../sql/members/remove.sql"), [&id])?;
    Ok(sessions)
}

pub(super) async fn drain(store: &SqliteStore, member: &WorkerKey) -> Result<bool, Error> {
    let member = member.clone();
    let work = move |tx: &mut Tx<'_>| {
        let order = include_str!("../../sql/members/order.sql");
        let is_there = run(tx, order, params![member.to_string(), tx.now.after(ORDER_TIMEOUT).0])? > 0;
        if is_there {
            tx.announcements.add(Wake::Worker(member.clone()));
        }
        Ok(is_there)
    };
    let is_there = store.write(Cost::change(1), work).await?;
    // Whoever orders this is often a command that ends at once.
    store.bus().flush().await;
    Ok(is_there)
}

/// A session on a member has ended; one that has had all it may have is ordered to drain.
pub(super) fn vacate(tx: &Tx<'_>, member: &WorkerKey) -> Result<(), Failure> {
    let vacate = include_str!("../../sql/members/vacate.sql");
    run(tx, vacate, params![member.to_string(), tx.now.after(ORDER_TIMEOUT).0])?;
    Ok(())
}

/// A session on a member lasts until then, which may be earlier than before.
pub(super) fn recount(tx: &Tx<'_>, member: &WorkerKey, until: Timestamp) -> Result<(), Failure> {
    run(tx, include_str!("../../sql/members/recount.sql"), params![member.to_string(), until.0])?;
    Ok(())
}

/// Whether a member is there and has no place; one that is not there yet is not full.
pub(super) fn is_full(tx: &Tx<'_>, member: &WorkerKey) -> Result<bool, Failure> {
    let room = include_str!("../../sql/members/room.sql");
    let has_room = first(tx, room, params![member.to_string(), tx.now.0], |row| Ok(row.get(0)?))?;
    Ok(has_room == Some(false))
}

/// A member, if it is there, has one session more in its lifetime. Whoever is spent with it can be replaced from now on.
pub(super) fn wear(tx: &mut Tx<'_>, member: &WorkerKey) -> Result<(), Failure> {
    let wear = include_str!("../../sql/members/wear.sql");
    let is_spent = first(tx, wear, [member.to_string()], |row| Ok(row.get(0)?))?;
    if is_spent == Some(true) {
        tx.announcements.add(Wake::Worker(member.clone()));
    }
    Ok(())
}

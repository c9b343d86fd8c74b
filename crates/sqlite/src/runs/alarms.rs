//! Alarms: the times a run wants to be told of.

use rusqlite::{OptionalExtension, params};
use tidemill_core::store::runs::{EntryKind, RunTimer, StoredEntry, encode_entry};
use tidemill_core::store::{self};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Timestamp};

use super::instance::by_number;
use super::task::Wanted;
use crate::call::Tx;
use crate::error::Failure;
use crate::row;
use crate::savepoint::apart;

/// When an alarm goes off. One that is past keeps its time: it goes off before those that were due later.
pub(super) fn due_at(due: store::Due, now: Timestamp) -> Timestamp {
    match due {
        store::Due::Now => now,
        store::Due::In(delay) => now.after(delay),
        store::Due::At(time) => time,
    }
}

/// Sets an alarm of the run with the number `run`.
pub(super) fn set(tx: &Tx<'_>, run: i64, seq: u64, due: Timestamp, alarm: RunTimer) -> Result<(), Failure> {
    let mut set = tx.connection.prepare_cached(include_str!("../../sql/alarms/set.sql"))?;
    set.execute(params![run, seq.cast_signed(), due.0, alarm.code()])?;
    Ok(())
}

pub(super) fn drop_one(tx: &Tx<'_>, run: i64, seq: u64) -> Result<(), Failure> {
    let mut drop = tx.connection.prepare_cached(include_str!("../../sql/alarms/drop.sql"))?;
    drop.execute([run, seq.cast_signed()])?;
    Ok(())
}

pub(super) fn drop_all(tx: &Tx<'_>, run: i64) -> Result<(), Failure> {
    tx.connection.prepare_cached(include_str!("../../sql/alarms/clear.sql"))?.execute([run])?;
    Ok(())
}

/// When the next alarm of any run is due.
pub(crate) fn next_alarm(tx: &Tx<'_>) -> Result<Option<Timestamp>, Failure> {
    let mut next = tx.connection.prepare_cached(include_str!("../../sql/alarms/next.sql"))?;
    Ok(next.query_row([], |row| row.get(0).map(Timestamp)).optional()?)
}

/// Wakes whoever sleeps until the next alarm if `set`, an alarm of this run, is now the next.
pub(super) fn announce_if_sooner(tx: &mut Tx<'_>, run: i64, set: Option<Timestamp>) -> Result<(), Failure> {
    if set.is_none() || next_alarm(tx)? != set {
        return Ok(());
    }
    let mut queue = tx.connection.prepare_cached(include_str!("../../sql/runs/queue.sql"))?;
    let mut rows = queue.query([run])?;
    if let Some(row) = rows.next()? {
        tx.announcements.add(Wake::DueEarlier(row::queue(row, 0)?));
    }
    Ok(())
}

/// Tells runs of up to `limit` alarms whose time has come. Returns how many went off.
pub(crate) fn ring(tx: &mut Tx<'_>, limit: usize) -> Result<u64, Failure> {
    let (mut wanted, mut rung) = (Wanted::default(), 0);
    for due in due(tx, limit)? {
        // One that fails must not keep the others from going off.
        let went_off = apart(tx.connection, || ring_one(tx, &due, &mut wanted))?;
        rung += u64::from(match went_off {
            Ok(went_off) => went_off,
            Err(failure) if failure.is_damage() => set_aside(tx, &due).map(|()| false)?,
            Err(failure) => return Err(failure),
        });
    }
    wanted.make(tx)?;
    Ok(rung)
}

/// An alarm whose time has come, with the letter that says which.
struct Due {
    run: i64,
    seq: i64,
    letter: String,
}

fn due(tx: &Tx<'_>, limit: usize) -> Result<Vec<Due>, Failure> {
    let mut list = tx.connection.prepare_cached(include_str!("../../sql/alarms/due.sql"))?;
    let read = |row: &rusqlite::Row<'_>| Ok(Due { run: row.get(0)?, seq: row.get(1)?, letter: row.get(2)? });
    let due = list.query_map(params![tx.now.0, i64::try_from(limit).unwrap_or(i64::MAX)], read)?;
    Ok(due.collect::<Result<_, _>>()?)
}

/// An alarm that cannot go off stays, for somebody to look at.
fn set_aside(tx: &Tx<'_>, due: &Due) -> Result<(), Failure> {
    let mut aside = tx.connection.prepare_cached(include_str!("../../sql/alarms/set_aside.sql"))?;
    aside.execute([due.run, due.seq])?;
    Ok(())
}

fn ring_one(tx: &Tx<'_>, due: &Due, wanted: &mut Wanted) -> Result<bool, Failure> {
    let known = RunTimer::ALL.into_iter().find(|alarm| alarm.code() == due.letter);
    let alarm = known.ok_or_else(|| Error::Corrupt(format!("{:?} is no alarm", due.letter)))?;
    drop_one(tx, due.run, due.seq.cast_unsigned())?;
    // One without a run that is open is a leftover, and gone now.
    let open = by_number(tx, due.run)?.filter(|run| !run.status.is_closed());
    let Some(mut run) = open else { return Ok(false) };
    let event = alarm.event(due.seq.cast_unsigned());
    let entry = encode_entry(tx.now, "event", event.as_bytes());
    run.append(tx, &StoredEntry { kind: EntryKind::CommandResult, bytes: entry })?;
    run.save(tx)?;
    wanted.add(run.number);
    Ok(true)
}

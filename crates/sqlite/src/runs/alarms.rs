//! Alarms: the times at which a run receives an event.

use rusqlite::{OptionalExtension, params};
use tidemill_core::store::runs::{EntryKind, RunTimer, StoredEntry, encode_entry};
use tidemill_core::store::{self};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Timestamp};

use super::run_row::find_by_number;
use super::task::PendingTasks;
use crate::connection::{Tx, in_savepoint};
use crate::error::RequestError;
use crate::row;

/// Sets an alarm. It replaces one with the same number.
const SET_ALARM: &str =
    "INSERT OR REPLACE INTO tidemill_alarms (run, seq, due, alarm) VALUES (?1, ?2, ?3, ?4)";

/// Deletes an alarm, if it exists.
const DELETE_ALARM: &str = "DELETE FROM tidemill_alarms WHERE run = ?1 AND seq = ?2";

/// Deletes all alarms of a run.
pub(super) const DELETE_ALARMS: &str = "DELETE FROM tidemill_alarms WHERE run = ?1";

/// When the next alarm of any run is due.
const NEXT_DUE_ALARM: &str = "SELECT due FROM tidemill_alarms WHERE due IS NOT NULL ORDER BY due LIMIT 1";

/// The queue of a run's tasks.
const FIND_RUN_QUEUE: &str = "
    SELECT q.name, q.delivery FROM tidemill_runs r CROSS JOIN tidemill_queues q ON q.id = r.queue
        WHERE r.number = ?1";

/// A bounded number of due alarms, the oldest first.
const LIST_DUE_ALARMS: &str =
    "SELECT run, seq, alarm FROM tidemill_alarms WHERE due <= ?1 ORDER BY due, run, seq LIMIT ?2";

/// Clears the due time of an alarm that cannot be parsed. The row stays for an operator to
/// inspect.
const SET_ALARM_ASIDE: &str = "UPDATE tidemill_alarms SET due = NULL WHERE run = ?1 AND seq = ?2";

/// When an alarm fires. A past time stays as it is, so that the alarm fires before alarms that were
/// due later.
pub(super) fn due_at(due: store::Due, now: Timestamp) -> Timestamp {
    match due {
        store::Due::Now => now,
        store::Due::In(delay) => now.after(delay),
        store::Due::At(time) => time,
    }
}

/// Sets an alarm of the run with the number `run`.
pub(super) fn set(
    tx: &Tx<'_>,
    run: i64,
    seq: u64,
    due: Timestamp,
    alarm: RunTimer,
) -> Result<(), RequestError> {
    let mut set = tx.connection.prepare_cached(SET_ALARM)?;
    set.execute(params![run, seq.cast_signed(), due.0, alarm.code()])?;
    Ok(())
}

pub(super) fn drop_one(tx: &Tx<'_>, run: i64, seq: u64) -> Result<(), RequestError> {
    let mut drop = tx.connection.prepare_cached(DELETE_ALARM)?;
    drop.execute([run, seq.cast_signed()])?;
    Ok(())
}

pub(super) fn drop_all(tx: &Tx<'_>, run: i64) -> Result<(), RequestError> {
    tx.connection.prepare_cached(DELETE_ALARMS)?.execute([run])?;
    Ok(())
}

/// When the next alarm of any run is due.
pub(crate) fn next_alarm(tx: &Tx<'_>) -> Result<Option<Timestamp>, RequestError> {
    let mut next = tx.connection.prepare_cached(NEXT_DUE_ALARM)?;
    Ok(next.query_row([], |row| row.get(0).map(Timestamp)).optional()?)
}

/// Wakes the sleepers until the next alarm if `set`, an alarm of this run, is now the next.
pub(super) fn announce_if_sooner(
    tx: &mut Tx<'_>,
    run: i64,
    set: Option<Timestamp>,
) -> Result<(), RequestError> {
    if set.is_none() || next_alarm(tx)? != set {
        return Ok(());
    }
    let mut find_queue = tx.connection.prepare_cached(FIND_RUN_QUEUE)?;
    let mut rows = find_queue.query([run])?;
    if let Some(row) = rows.next()? {
        tx.wakes.add(Wake::DueEarlier(row::queue(row, 0)?));
    }
    Ok(())
}

/// Fires up to `limit` due alarms: appends an event to the run of each. Returns how many fired.
pub(crate) fn fire_due_alarms(tx: &mut Tx<'_>, limit: usize) -> Result<u64, RequestError> {
    let (mut tasks, mut fired) = (PendingTasks::default(), 0);
    for due in list_due(tx, limit)? {
        // An alarm that fails must not block the others.
        let result = in_savepoint(tx.connection, || fire_one(tx, &due, &mut tasks))?;
        fired += u64::from(match result {
            Ok(has_fired) => has_fired,
            Err(failure) if failure.is_corruption() => set_aside(tx, &due).map(|()| false)?,
            Err(failure) => return Err(failure),
        });
    }
    tasks.create(tx)?;
    Ok(fired)
}

/// A due alarm. Its letter encodes what kind of alarm it is.
struct DueAlarm {
    run: i64,
    seq: i64,
    letter: String,
}

fn list_due(tx: &Tx<'_>, limit: usize) -> Result<Vec<DueAlarm>, RequestError> {
    let mut list = tx.connection.prepare_cached(LIST_DUE_ALARMS)?;
    let read =
        |row: &rusqlite::Row<'_>| Ok(DueAlarm { run: row.get(0)?, seq: row.get(1)?, letter: row.get(2)? });
    let due = list.query_map(params![tx.now.0, i64::try_from(limit).unwrap_or(i64::MAX)], read)?;
    Ok(due.collect::<Result<_, _>>()?)
}

/// Clears the due time of an alarm that cannot fire. The row stays for an operator to inspect.
fn set_aside(tx: &Tx<'_>, due: &DueAlarm) -> Result<(), RequestError> {
    let mut aside = tx.connection.prepare_cached(SET_ALARM_ASIDE)?;
    aside.execute([due.run, due.seq])?;
    Ok(())
}

fn fire_one(tx: &Tx<'_>, due: &DueAlarm, tasks: &mut PendingTasks) -> Result<bool, RequestError> {
    let known = RunTimer::ALL.into_iter().find(|alarm| alarm.code() == due.letter);
    let alarm = known.ok_or_else(|| Error::Corrupt(format!("{:?} is not an alarm", due.letter)))?;
    drop_one(tx, due.run, due.seq.cast_unsigned())?;
    // An alarm without an open run is a leftover. It is deleted by now.
    let open = find_by_number(tx, due.run)?.filter(|run| !run.status.is_closed());
    let Some(mut run) = open else { return Ok(false) };
    let event = alarm.event(due.seq.cast_unsigned());
    let entry = encode_entry(tx.now, "event", event.as_bytes());
    run.append(tx, &StoredEntry { kind: EntryKind::CommandResult, bytes: entry })?;
    run.save(tx)?;
    tasks.add(run.number);
    Ok(true)
}

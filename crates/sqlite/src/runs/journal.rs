//! Journals: append entries, start a new journal, and read unconsumed events.

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::store::runs::{EntryKind, MAX_TASK_EVENT_BYTES, MAX_TASK_EVENTS, ReadBudget, StoredEntry};

use super::run_row::RunRow;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::row;

/// Appends an entry. Its position was assigned under the same write lock.
const APPEND_ENTRY: &str =
    "INSERT INTO tidemill_journal (run, position, kind, entry) VALUES (?1, ?2, ?3, ?4)";

/// Copies unconsumed messages, in order, after the first position of the new journal.
const COPY_MESSAGES: &str = "
    INSERT INTO tidemill_journal (run, position, kind, entry)
    SELECT run, ?3 + row_number() OVER (ORDER BY position), kind, entry FROM tidemill_journal
    WHERE run = ?1 AND position > ?2 AND kind = 'm'";

/// Deletes a journal up to a position.
const DELETE_ENTRIES_UP_TO: &str = "DELETE FROM tidemill_journal WHERE run = ?1 AND position <= ?2";

/// The first events after a position, the oldest first. There are few commits in between: each
/// follows the events that it consumed.
const LIST_UNCONSUMED_EVENTS: &str = "
    SELECT position, entry FROM tidemill_journal WHERE run = ?1 AND position > ?2 AND kind <> 'c'
        ORDER BY position LIMIT ?3";

/// Inserts an entry at its position.
pub(super) fn append(
    tx: &Tx<'_>,
    run: i64,
    position: u64,
    written: &StoredEntry,
) -> Result<(), RequestError> {
    let mut append = tx.connection.prepare_cached(APPEND_ENTRY)?;
    append.execute(params![run, position.cast_signed(), kind_letter(written.kind), &written.bytes[..]])?;
    Ok(())
}

/// Starts a new journal with `first`, followed by the messages after `upto`. Positions continue.
pub(super) fn restart(tx: &Tx<'_>, run: &mut RunRow, first: &Bytes, upto: u64) -> Result<(), RequestError> {
    let end = run.length;
    run.cursor = end;
    run.append(tx, &StoredEntry { kind: EntryKind::CommandResult, bytes: first.clone() })?;
    let mut carry = tx.connection.prepare_cached(COPY_MESSAGES)?;
    let messages = carry.execute([run.number, upto.cast_signed(), run.length.cast_signed()])?;
    run.length += messages as u64;
    let mut cut = tx.connection.prepare_cached(DELETE_ENTRIES_UP_TO)?;
    cut.execute([run.number, end.cast_signed()])?;
    run.save(tx)
}

/// An event with its position.
pub(super) type UnconsumedEvent = (u64, Bytes);

/// Reads the first events after `cursor`, as many as a task can carry.
pub(super) fn unconsumed_events(
    tx: &Tx<'_>,
    run: i64,
    cursor: u64,
) -> Result<Vec<UnconsumedEvent>, RequestError> {
    let mut list = tx.connection.prepare_cached(LIST_UNCONSUMED_EVENTS)?;
    let mut rows = list.query([run, cursor.cast_signed(), MAX_TASK_EVENTS as i64])?;
    let (mut events, mut budget) = (Vec::new(), ReadBudget::new(MAX_TASK_EVENTS, MAX_TASK_EVENT_BYTES));
    while budget.is_left()
        && let Some(row) = rows.next()?
    {
        let entry = row::body(row, 1)?;
        budget.fill(&entry);
        events.push((row::count(row, 0)?, entry));
    }
    Ok(events)
}

pub(super) fn kind_letter(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Commit => "c",
        EntryKind::CommandResult => "a",
        EntryKind::Message => "m",
    }
}

//! Journals: adding to them, beginning them anew, reading them.

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::store::runs::{
    EntryKind, MAX_TASK_EVENT_BYTES, MAX_TASK_EVENTS, ReadBudget, ReadJournalParams, StoredEntry,
};

use super::instance::Instance;
use crate::call::Tx;
use crate::error::Failure;
use crate::row;
use crate::store::SqliteStore;

pub(crate) async fn journal(
    store: &SqliteStore,
    read: ReadJournalParams<'_>,
) -> Result<Vec<(u64, StoredEntry)>, Error> {
    let (run, from) = (read.run.clone(), i64::try_from(read.from).unwrap_or(i64::MAX));
    let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
    let mut room = ReadBudget::new(read.limit, read.bytes);
    let look = move |tx: &mut Tx<'_>| {
        let mut read = tx.connection.prepare_cached(include_str!("../../sql/journal/read.sql"))?;
        let mut rows = read.query(params![run.as_str(), from, limit])?;
        let mut entries = Vec::new();
        while room.is_left()
            && let Some(row) = rows.next()?
        {
            let written = StoredEntry { kind: kind(row.get_ref(1)?.as_str()?)?, bytes: row::body(row, 2)? };
            room.fill(&written.bytes);
            entries.push((row::count(row, 0)?, written));
        }
        Ok(entries)
    };
    store.read(look).await
}

/// Adds an entry at its position.
pub(super) fn append(tx: &Tx<'_>, run: i64, position: u64, written: &StoredEntry) -> Result<(), Failure> {
    let mut append = tx.connection.prepare_cached(include_str!("../../sql/journal/append.sql"))?;
    append.execute(params![run, position.cast_signed(), letter(written.kind), &written.bytes[..]])?;
    Ok(())
}

/// Empties the journal and begins it again with `first`, after which come the messages beyond `upto`. Positions go on.
pub(super) fn restart(tx: &Tx<'_>, run: &mut Instance, first: &Bytes, upto: u64) -> Result<(), Failure> {
    let end = run.length;
    run.cursor = end;
    run.append(tx, &StoredEntry { kind: EntryKind::CommandResult, bytes: first.clone() })?;
    let mut carry = tx.connection.prepare_cached(include_str!("../../sql/journal/carry.sql"))?;
    let messages = carry.execute([run.number, upto.cast_signed(), run.length.cast_signed()])?;
    run.length += messages as u64;
    let mut cut = tx.connection.prepare_cached(include_str!("../../sql/journal/cut.sql"))?;
    cut.execute([run.number, end.cast_signed()])?;
    run.save(tx)
}

/// An event with its position.
pub(super) type New = (u64, Bytes);

/// The first events after `cursor`, as many as a task has room for.
pub(super) fn news(tx: &Tx<'_>, run: i64, cursor: u64) -> Result<Vec<New>, Failure> {
    let mut list = tx.connection.prepare_cached(include_str!("../../sql/journal/news.sql"))?;
    let mut rows = list.query([run, cursor.cast_signed(), MAX_TASK_EVENTS as i64])?;
    let (mut news, mut room) = (Vec::new(), ReadBudget::new(MAX_TASK_EVENTS, MAX_TASK_EVENT_BYTES));
    while room.is_left()
        && let Some(row) = rows.next()?
    {
        let entry = row::body(row, 1)?;
        room.fill(&entry);
        news.push((row::count(row, 0)?, entry));
    }
    Ok(news)
}

fn letter(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Commit => "c",
        EntryKind::CommandResult => "a",
        EntryKind::Message => "m",
    }
}

fn kind(letter: &str) -> Result<EntryKind, Failure> {
    let all = [EntryKind::Commit, EntryKind::CommandResult, EntryKind::Message];
    let known = all.into_iter().find(|kind| self::letter(*kind) == letter);
    known.ok_or_else(|| Error::Corrupt(format!("{letter:?} is no kind of journal entry")).into())
}

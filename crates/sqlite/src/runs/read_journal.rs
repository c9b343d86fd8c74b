//! `read_journal`: reads a part of a journal.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::store::runs::{EntryKind, ReadBudget, ReadJournalParams, StoredEntry};

use super::journal::kind_letter;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::row;
use crate::store::SqliteStore;

pub(crate) async fn read_journal(
    store: &SqliteStore,
    read: ReadJournalParams<'_>,
) -> Result<Vec<(u64, StoredEntry)>, Error> {
    let (run, from) = (read.run.clone(), i64::try_from(read.from).unwrap_or(i64::MAX));
    let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
    let mut budget = ReadBudget::new(read.limit, read.bytes);
    let read_entries = move |tx: &mut Tx<'_>| {
        let mut read = tx.connection.prepare_cached(sql!("runs/read_journal"))?;
        let mut rows = read.query(params![run.as_str(), from, limit])?;
        let mut entries = Vec::new();
        while budget.is_left()
            && let Some(row) = rows.next()?
        {
            let written =
                StoredEntry { kind: kind_from_letter(row.get_ref(1)?.as_str()?)?, bytes: row::body(row, 2)? };
            budget.fill(&written.bytes);
            entries.push((row::count(row, 0)?, written));
        }
        Ok(entries)
    };
    store.read(read_entries).await
}

fn kind_from_letter(letter: &str) -> Result<EntryKind, RequestError> {
    let all = [EntryKind::Commit, EntryKind::CommandResult, EntryKind::Message];
    let known = all.into_iter().find(|kind| kind_letter(*kind) == letter);
    known.ok_or_else(|| Error::Corrupt(format!("{letter:?} is not a kind of journal entry")).into())
}

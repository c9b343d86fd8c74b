//! A run's row, as the verbs that change it see it.

use rusqlite::{Row, params};
use tidemill_core::Timestamp;
use tidemill_core::store::runs::{CommitParams, EntryKind, StoredEntry, with_timestamp};
use tidemill_core::workflow::{CommitId, RunId, RunStatus};

use super::journal;
use crate::call::Tx;
use crate::error::Failure;
use crate::row;

/// A run as it is now.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) number: i64,
    pub(super) status: RunStatus,
    /// How far it has come.
    pub(super) cursor: u64,
    /// The last position of its journal.
    pub(super) length: u64,
    /// The commit by which it came there.
    pub(super) last_commit: Option<CommitId>,
    /// How long it is kept when it has ended, in milliseconds.
    pub(super) keep: i64,
    /// When its time is over, if it has ended.
    pub(super) expires: Option<Timestamp>,
}

/// The run with this id, open or closed.
pub(super) fn find(tx: &Tx<'_>, run: &RunId) -> Result<Option<Instance>, Failure> {
    let mut find = tx.connection.prepare_cached(include_str!("../../sql/runs/find.sql"))?;
    let mut rows = find.query([run.as_str()])?;
    rows.next()?.map(Instance::read).transpose()
}

/// The run with this number.
pub(super) fn by_number(tx: &Tx<'_>, number: i64) -> Result<Option<Instance>, Failure> {
    let mut find = tx.connection.prepare_cached(include_str!("../../sql/runs/by_number.sql"))?;
    let mut rows = find.query([number])?;
    rows.next()?.map(Instance::read).transpose()
}

impl Instance {
    fn read(row: &Row<'_>) -> Result<Self, Failure> {
        Ok(Self {
            number: row.get(0)?,
            status: row::status(row, 1)?,
            cursor: row::count(row, 2)?,
            length: row::count(row, 3)?,
            keep: row.get(4)?,
            expires: row.get::<_, Option<i64>>(5)?.map(Timestamp),
            last_commit: row::commit_id(row, 6)?,
        })
    }

    /// Whether it has ended and is kept no longer: from then on it is as if it had never been.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Adds an entry to its journal, with the time it has now. Its row has yet to be told: see [`save`](Self::save).
    pub(super) fn append(&mut self, tx: &Tx<'_>, written: &StoredEntry) -> Result<(), Failure> {
        self.length += 1;
        let StoredEntry { kind, bytes: entry } = written;
        let written = StoredEntry { kind: *kind, bytes: with_timestamp(entry, tx.now) };
        journal::append(tx, self.number, self.length, &written)
    }

    /// Adds what a task did to its journal.
    pub(super) fn append_commit(&mut self, tx: &Tx<'_>, commit: &CommitParams) -> Result<(), Failure> {
        self.append(tx, &StoredEntry { kind: EntryKind::Commit, bytes: commit.entry.clone() })?;
        self.cursor = commit.upto;
        self.save(tx)
    }

    /// Writes down how far it has come, by which commit, and how long its journal is.
    pub(super) fn save(&self, tx: &Tx<'_>) -> Result<(), Failure> {
        let mut move_on = tx.connection.prepare_cached(include_str!("../../sql/runs/move_on.sql"))?;
        let (cursor, length) = (self.cursor.cast_signed(), self.length.cast_signed());
        let commit = self.last_commit.map(|id| id.number().cast_signed());
        move_on.execute(params![self.number, cursor, length, commit])?;
        Ok(())
    }
}

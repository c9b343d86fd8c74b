//! The row of a run, as the verbs that change it need it.

use rusqlite::{Row, params};
use tidemill_core::Timestamp;
use tidemill_core::store::runs::{CommitParams, EntryKind, StoredEntry, with_timestamp};
use tidemill_core::workflow::{CommitId, RunId, RunStatus};

use super::journal;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::row;

/// The columns that a verb needs before it changes a run. The write lock is held, so they stay
/// valid.
const FIND_RUN: &str = "
    SELECT number, status, cursor, length, keep, expires, last_commit FROM tidemill_runs
        WHERE id = ?1";

/// The columns that an alarm needs of its run.
const FIND_RUN_BY_NUMBER: &str = "
    SELECT number, status, cursor, length, keep, expires, last_commit FROM tidemill_runs
        WHERE number = ?1";

/// Stores the cursor, the journal length and the last commit of a run.
const SAVE_RUN: &str =
    "UPDATE tidemill_runs SET cursor = ?2, length = ?3, last_commit = ?4 WHERE number = ?1";

/// The current state of a run.
#[derive(Debug)]
pub(super) struct RunRow {
    pub(super) number: i64,
    pub(super) status: RunStatus,
    /// The last position that its commits have consumed.
    pub(super) cursor: u64,
    /// The last position of its journal.
    pub(super) length: u64,
    /// Its last commit.
    pub(super) last_commit: Option<CommitId>,
    /// How long it is kept after its end, in milliseconds.
    pub(super) keep: i64,
    /// When it expires, if it has ended.
    pub(super) expires: Option<Timestamp>,
}

/// The run with this id, open or closed.
pub(super) fn find(tx: &Tx<'_>, run: &RunId) -> Result<Option<RunRow>, RequestError> {
    let mut find = tx.connection.prepare_cached(FIND_RUN)?;
    let mut rows = find.query([run.as_str()])?;
    rows.next()?.map(RunRow::from_row).transpose()
}

/// The run with this number.
pub(super) fn find_by_number(tx: &Tx<'_>, number: i64) -> Result<Option<RunRow>, RequestError> {
    let mut find = tx.connection.prepare_cached(FIND_RUN_BY_NUMBER)?;
    let mut rows = find.query([number])?;
    rows.next()?.map(RunRow::from_row).transpose()
}

impl RunRow {
    fn from_row(row: &Row<'_>) -> Result<Self, RequestError> {
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

    /// Whether it has ended and expired. Such a run counts as deleted.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Appends an entry to its journal, stamped with the current time. Call [`save`](Self::save)
    /// afterwards to update the row.
    pub(super) fn append(&mut self, tx: &Tx<'_>, written: &StoredEntry) -> Result<(), RequestError> {
        self.length += 1;
        let StoredEntry { kind, bytes: entry } = written;
        let written = StoredEntry { kind: *kind, bytes: with_timestamp(entry, tx.now) };
        journal::append(tx, self.number, self.length, &written)
    }

    /// Appends the entry of a commit to its journal.
    pub(super) fn append_commit(&mut self, tx: &Tx<'_>, commit: &CommitParams) -> Result<(), RequestError> {
        self.append(tx, &StoredEntry { kind: EntryKind::Commit, bytes: commit.entry.clone() })?;
        self.cursor = commit.upto;
        self.save(tx)
    }

    /// Writes its cursor, its last commit and the length of its journal.
    pub(super) fn save(&self, tx: &Tx<'_>) -> Result<(), RequestError> {
        let mut save = tx.connection.prepare_cached(SAVE_RUN)?;
        let (cursor, length) = (self.cursor.cast_signed(), self.length.cast_signed());
        let commit = self.last_commit.map(|id| id.number().cast_signed());
        save.execute(params![self.number, cursor, length, commit])?;
        Ok(())
    }
}

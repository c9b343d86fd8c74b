//! `read_journal`: reads a part of a journal.

use bytes::Bytes;
use tidemill_core::Error;
use tidemill_core::store::runs::{ReadJournalParams, StoredEntry};
use tokio_postgres::Row;

use super::{kind_from_code, to_i64, to_u64};
use crate::Inner;
use crate::sql::READ_JOURNAL;

impl Inner {
    pub(crate) async fn read_journal(
        &self,
        read: ReadJournalParams<'_>,
    ) -> Result<Vec<(u64, StoredEntry)>, Error> {
        let (run, from) = (read.run.as_str(), to_i64(read.from));
        let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
        let bytes = i64::try_from(read.bytes.max(1)).unwrap_or(i64::MAX);
        let rows = self.pool.query(&READ_JOURNAL, &[&run, &from, &limit, &bytes]).await?;
        rows.iter().map(entry_from_row).collect()
    }
}

fn entry_from_row(row: &Row) -> Result<(u64, StoredEntry), Error> {
    let entry = Bytes::copy_from_slice(row.get("entry"));
    Ok((to_u64(row.get("position")), StoredEntry { kind: kind_from_code(row.get("kind"))?, bytes: entry }))
}

//! Page cursors: the sort key of the last row, and the row's number, which makes it unique.

use tidemill_core::Error;
use tidemill_core::store::Page;
use tokio_postgres::Row;

/// The end of a page.
pub(crate) struct Cursor {
    pub(crate) sort_key: i64,
    pub(crate) seq: i64,
}

impl Cursor {
    /// Parses a cursor. Without one the list begins at its start.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let Some(text) = text else { return Ok(Self { sort_key: -1, seq: -1 }) };
        let parts = text.split_once('.').and_then(|(key, seq)| Some((key.parse().ok()?, seq.parse().ok()?)));
        match parts {
            Some((sort_key, seq)) => Ok(Self { sort_key, seq }),
            None => Err(Error::Invalid("the cursor is not the end of a page".into())),
        }
    }
}

/// Makes a page of rows that are sorted by the column `sort_key` and `seq`.
pub(crate) fn page<T>(
    rows: &[Row],
    limit: usize,
    sort_key: &str,
    read: impl FnMut(&Row) -> Result<T, Error>,
) -> Result<Page<T>, Error> {
    let end = |row: &Row| format!("{}.{}", row.get::<_, i64>(sort_key), row.get::<_, i64>("seq"));
    let next = rows.last().filter(|_| rows.len() >= limit).map(end);
    Ok(Page { items: rows.iter().map(read).collect::<Result<_, _>>()?, next })
}

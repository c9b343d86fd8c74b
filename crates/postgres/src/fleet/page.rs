//! Pages of lists.

use tidemill_core::Error;
use tidemill_core::store::Page;
use tokio_postgres::Row;

pub(super) fn max_rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Makes a page of rows. If the page is full, its cursor is the id of its last row.
pub(super) fn page<T>(
    rows: &[Row],
    limit: usize,
    read: impl Fn(&Row) -> Result<T, Error>,
) -> Result<Page<T>, Error> {
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.get("id"));
    Ok(Page { items: rows.iter().map(read).collect::<Result<_, _>>()?, next })
}

//! Where a page ended: the place of its last row in the order, and the row's number, which makes it unique.

use tidemill_core::Error;
use tidemill_core::store::Page;
use tokio_postgres::Row;

/// The end of a page.
pub(crate) struct Cursor {
    pub(crate) place: i64,
    pub(crate) seq: i64,
}

impl Cursor {
    /// Reads a cursor; without one the list begins at its beginning.
    pub(crate) fn read(text: Option<&str>) -> Result<Self, Error> {
        let Some(text) = text else { return Ok(Self { place: -1, seq: -1 }) };
        let parts =
            text.split_once('.').and_then(|(place, seq)| Some((place.parse().ok()?, seq.parse().ok()?)));
        match parts {
            Some((place, seq)) => Ok(Self { place, seq }),
            None => Err(Error::Invalid("the cursor is not one that a page ended with".into())),
        }
    }
}

/// Makes a page of rows that are ordered by `place` and `seq`.
pub(crate) fn page<T>(
    rows: &[Row],
    limit: usize,
    place: &str,
    read: impl FnMut(&Row) -> Result<T, Error>,
) -> Result<Page<T>, Error> {
    let end = |row: &Row| format!("{}.{}", row.get::<_, i64>(place), row.get::<_, i64>("seq"));
    let next = rows.last().filter(|_| rows.len() >= limit).map(end);
    Ok(Page { items: rows.iter().map(read).collect::<Result<_, _>>()?, next })
}

//! `list_expired`: pages of expired leases.

use rusqlite::params;
use tidemill_core::Error;
use tidemill_core::name::Queue;
use tidemill_core::store::{ExpiredLease, ExpiredLeases, ListExpiredParams};

use crate::connection::Tx;
use crate::error::RequestError;
use crate::row::{self, LeasedRow};
use crate::store::SqliteStore;

pub(crate) async fn list_expired(
    store: &SqliteStore,
    expired: ListExpiredParams<'_>,
) -> Result<ExpiredLeases, Error> {
    let after = match &expired.cursor {
        None => i64::MIN,
        Some(cursor) => {
            cursor.parse().map_err(|_| Error::Invalid(format!("{cursor:?} is not a cursor of a page")))?
        }
    };
    let limit = expired.limit;
    let (now, rows) = store.read(move |tx| Ok((tx.now, expired_page(tx, after, limit)?))).await?;
    let next =
        rows.last().filter(|_| rows.len() == limit).map(|(leased, ..)| row::claim_and_seq(leased.token).1);
    let hold = |(leased, by, queue): (LeasedRow, String, Queue)| ExpiredLease {
        claimed: leased.into_claimed(&queue),
        holder: by,
    };
    let holds = rows.into_iter().map(hold).collect();
    Ok(ExpiredLeases { leases: holds, next: next.map(|seq| seq.to_string()), shard_times: vec![(0, now)] })
}

fn expired_page(
    tx: &Tx<'_>,
    after: i64,
    limit: usize,
) -> Result<Vec<(LeasedRow, String, Queue)>, RequestError> {
    let mut expired = tx.connection.prepare_cached(sql!("jobs/list_expired"))?;
    let mut rows = expired.query(params![tx.now.0, after, limit as i64])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, claim) = (row.get(0)?, row.get(1)?);
        let (id, body) = (row::job_id(row, 4, seq)?, row::body(row, 5)?);
        let leased = LeasedRow { token: row::token(claim, seq), id, body, started: row.get(3)? };
        page.push((leased, row.get(2)?, row::queue(row, 6)?));
    }
    Ok(page)
}

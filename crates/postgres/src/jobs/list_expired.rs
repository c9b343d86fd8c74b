//! `list_expired`: pages of expired leases.

use std::time::Duration;

use tidemill_core::store::{ExpiredLease, ExpiredLeases, ListExpiredParams};
use tidemill_core::{Error, Timestamp};
use tokio_postgres::Row;

use super::lease_low_water_mark::LeaseScan;
use super::queue;
use super::recover::claimed_from_row;
use crate::Inner;
use crate::cursor::{Cursor, page};
use crate::sql::LIST_EXPIRED;

impl Inner {
    pub(crate) async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        let ListExpiredParams { cursor, limit, .. } = expired;
        let Cursor { mut sort_key, seq } = Cursor::parse(cursor.as_deref())?;
        let mark = self.lease_low_water_mark.start().filter(|_| cursor.is_none());
        sort_key = mark.unwrap_or(sort_key);
        let limit_rows = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = self.pool.query(&LIST_EXPIRED, &[&sort_key, &seq, &limit_rows]).await?;
        let times = rows.first().map(|row| (0, Timestamp(row.get("now"))));
        if cursor.is_none() && mark.is_none() {
            rows.first()
                .into_iter()
                .for_each(|row| self.lease_low_water_mark.record_scan(scan_from_row(row)));
        }
        rows.retain(|row| row.get::<_, Option<i64>>("seq").is_some());
        let hold = |row: &Row| {
            let queue = queue(row.get("name"), row.get("delivery"))?;
            Ok(ExpiredLease { claimed: claimed_from_row(&queue, row)?, holder: row.get("worker") })
        };
        let page = page(&rows, limit, "until", hold)?;
        Ok(ExpiredLeases { leases: page.items, next: page.next, shard_times: times.into_iter().collect() })
    }
}

/// The scan from the start whose first row this is.
fn scan_from_row(row: &Row) -> LeaseScan {
    let took = Duration::from_micros(u64::try_from(row.get::<_, i64>("took")).unwrap_or(0));
    LeaseScan { took, at: row.get("now"), oldest: row.get("until") }
}

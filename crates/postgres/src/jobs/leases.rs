//! Holding on to claimed jobs: start, extend, and seeing who has let go.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use tidemill_core::Error;
use tidemill_core::store::{Claimed, Expired, Extend, Held, Hold, Page, Start, Verdict};
use tokio_postgres::Row;

use super::{job_at, lease, ms, number, sorted};
use crate::Inner;
use crate::cursor::{Cursor, page};
use crate::error::is_locked;
use crate::sql::{EXPIRED, EXTEND, START, START_FREE};

impl Inner {
    /// What others keep locked counts as lost: whoever has locked it is about to end it.
    pub(crate) async fn start(&self, start: Start<'_>) -> Result<Vec<Verdict>, Error> {
        if start.leases.is_empty() {
            return Ok(Vec::new());
        }
        let tokens = sorted(start.leases);
        let rows = match self.pool.query(&START, &[&tokens]).await {
            Err(error) if is_locked(&error) => self.pool.query(&START_FREE, &[&tokens]).await?,
            rows => rows?,
        };
        let current: HashSet<i64> = rows.iter().map(|row| row.get("seq")).collect();
        let verdict = |current| if current { Verdict::Accepted } else { Verdict::LeaseLost };
        Ok(start.leases.iter().map(|lease| verdict(current.contains(&number(lease)))).collect())
    }

    pub(crate) async fn extend(&self, extend: Extend<'_>) -> Result<Vec<Held>, Error> {
        if extend.leases.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.pool.query(&EXTEND, &[&sorted(extend.leases), &ms(extend.lease)]).await?;
        let current: HashMap<i64, bool> =
            rows.iter().map(|row| (row.get("seq"), row.get("cancelling"))).collect();
        let held = |cancelling: Option<&bool>| match cancelling {
            Some(false) => Held::Yes,
            Some(true) => Held::Cancelling,
            None => Held::Lost,
        };
        Ok(extend.leases.iter().map(|lease| held(current.get(&number(lease)))).collect())
    }

    pub(crate) async fn expired(&self, expired: Expired<'_>) -> Result<Page<Hold>, Error> {
        let Expired { queue, cursor, limit, .. } = expired;
        let Cursor { place, seq } = Cursor::read(cursor.as_deref())?;
        let limit_rows = i64::try_from(limit).unwrap_or(i64::MAX);
        let Some(number) = self.find_number(queue).await? else { return Ok(Page::default()) };
        let rows = self.pool.query(&EXPIRED, &[&number, &place, &seq, &limit_rows]).await?;
        let hold = |row: &Row| {
            let job = job_at(row)?;
            let data = Bytes::copy_from_slice(row.get("envelope"));
            let claimed = Claimed::read(data, row.get("started"), |_| lease(queue, job, row.get("seq")));
            Ok(Hold { claimed, by: row.get("worker") })
        };
        page(&rows, limit, "until", hold)
    }
}

//! Holding on to claimed jobs: start, extend, and seeing who has let go.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::store::{
    Claimed, ClockStep, ExpiredLease, ExpiredLeases, ExtendParams, Extended, ListExpiredParams,
    RecoverParams, StartParams, Verdict,
};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Queue, Timestamp};
use tokio_postgres::Row;

use super::lease_mark::Sweep;
use super::{job_at, lease, ms, number, queue, sorted};
use crate::Inner;
use crate::cursor::{Cursor, page};
use crate::error::is_locked;
use crate::sql::{ADVANCE, EXPIRED, EXTEND, RECOVER, SHORTEN, START, START_FREE};

/// How many jobs one recovery returns at most; what is left is found by the next.
const MAX_RECOVERED: i64 = 4_096;

impl Inner {
    pub(crate) async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        let RecoverParams { queue, worker, known_leases: known, .. } = recover;
        let Some(queue_number) = self.find_number(queue).await? else { return Ok(Vec::new()) };
        let known: Vec<i64> = known.iter().map(number).collect();
        let rows =
            self.pool.query(&RECOVER, &[&queue_number, &worker.as_str(), &known, &MAX_RECOVERED]).await?;
        rows.iter().map(|row| leased(queue, row)).collect()
    }

    /// What others keep locked counts as lost: whoever has locked it is about to end it.
    pub(crate) async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
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

    pub(crate) async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        if extend.leases.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.pool.query(&EXTEND, &[&sorted(extend.leases), &ms(extend.lease)]).await?;
        let current: HashMap<i64, bool> =
            rows.iter().map(|row| (row.get("seq"), row.get("cancelling"))).collect();
        let held = |cancelling: Option<&bool>| match cancelling {
            Some(false) => Extended::Yes,
            Some(true) => Extended::Cancelling,
            None => Extended::Lost,
        };
        Ok(extend.leases.iter().map(|lease| held(current.get(&number(lease)))).collect())
    }

    pub(crate) async fn expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        let ListExpiredParams { cursor, limit, .. } = expired;
        let Cursor { mut place, seq } = Cursor::read(cursor.as_deref())?;
        let mark = self.lease_mark.start().filter(|_| cursor.is_none());
        place = mark.unwrap_or(place);
        let limit_rows = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = self.pool.query(&EXPIRED, &[&place, &seq, &limit_rows]).await?;
        let times = rows.first().map(|row| (0, Timestamp(row.get("now"))));
        if cursor.is_none() && mark.is_none() {
            rows.first().into_iter().for_each(|row| self.lease_mark.swept(sweep(row)));
        }
        rows.retain(|row| row.get::<_, Option<i64>>("seq").is_some());
        let hold = |row: &Row| {
            let queue = queue(row.get("name"), row.get("delivery"))?;
            Ok(ExpiredLease { claimed: leased(&queue, row)?, holder: row.get("worker") })
        };
        let page = page(&rows, limit, "until", hold)?;
        Ok(ExpiredLeases { leases: page.items, next: page.next, shard_times: times.into_iter().collect() })
    }

    pub(crate) async fn clock_went_back(&self, step: ClockStep) -> Result<(), Error> {
        self.pool.execute(&SHORTEN, &[&ms(step.lease_limit)]).await?;
        self.lease_mark.forget();
        loop {
            let rows = self.pool.query(&ADVANCE, &[&step.from.0, &MAX_RECOVERED]).await?;
            let moved: i64 = rows.first().map_or(0, |row| row.get("moved"));
            self.bus.publish(Wake::Everything);
            if moved < MAX_RECOVERED {
                return Ok(());
            }
        }
    }
}

/// A look from the beginning, of which this is the first row.
fn sweep(row: &Row) -> Sweep {
    let took = Duration::from_micros(u64::try_from(row.get::<_, i64>("took")).unwrap_or(0));
    Sweep { took, at: row.get("now"), oldest: row.get("until") }
}

/// A leased job as it is in the database.
fn leased(queue: &Queue, row: &Row) -> Result<Claimed, Error> {
    let job = job_at(row)?;
    let data = Bytes::copy_from_slice(row.get("envelope"));
    Ok(Claimed::read(data, row.get("started"), |_| lease(queue, job, row.get("seq"))))
}

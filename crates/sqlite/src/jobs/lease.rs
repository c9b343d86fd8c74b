//! Keeping leases and finding those that have run out.

use rusqlite::{OptionalExtension, params};
use tidemill_core::name::Queue;
use tidemill_core::store::{
    ClockStep, ExpiredLease, ExpiredLeases, ExtendParams, Extended, ListExpiredParams, StartParams, Verdict,
};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Token};

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::row::{self, Leased};
use crate::store::SqliteStore;

/// A lease that would be moved by less than this part of its length is not moved.
const EXTENDED_PART: u32 = 10;

pub(crate) async fn start(store: &SqliteStore, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
    let tokens: Vec<_> = start.leases.iter().map(|lease| lease.token).collect();
    store
        .write(Cost::change(tokens.len()), move |tx| {
            tokens.iter().map(|token| start_one(tx, *token)).collect()
        })
        .await
}

fn start_one(tx: &Tx<'_>, token: Token) -> Result<Verdict, Failure> {
    let (claim, seq) = row::parts(token);
    let mut start = tx.connection.prepare_cached(include_str!("../../sql/jobs/start.sql"))?;
    let started = start.execute([seq, claim])? == 1;
    Ok(if started { Verdict::Accepted } else { Verdict::LeaseLost })
}

/// Leases that were extended only just now are looked at and not written: a worker hurries to extend when another process
/// has written, and each extension would make all the others hurry. What is written does not wait for the disk, because no
/// worker outlives the power of the machine that holds the file.
pub(crate) async fn extend(store: &SqliteStore, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
    let tokens: Vec<_> = extend.leases.iter().map(|lease| lease.token).collect();
    let (lease, looked_at) = (extend.lease, tokens.clone());
    let look = move |tx: &mut Tx<'_>| {
        let enough = tx.now.after(lease - lease / EXTENDED_PART).0;
        looked_at.iter().map(|token| is_held(tx, *token, enough)).collect()
    };
    let seen: Option<Vec<Extended>> = store.read(look).await?;
    if let Some(held) = seen {
        return Ok(held);
    }
    let work = move |tx: &mut Tx<'_>| {
        let until = tx.now.after(lease).0;
        tokens.iter().map(|token| extend_one(tx, *token, until)).collect()
    };
    store.write(Cost::change(extend.leases.len()).fleeting(), work).await
}

/// Whether a lease is held, if it does not have to be moved: it ends no earlier than this.
fn is_held(tx: &Tx<'_>, token: Token, enough: i64) -> Result<Option<Extended>, Failure> {
    let (claim, seq) = row::parts(token);
    let mut look = tx.connection.prepare_cached(include_str!("../../sql/jobs/lease_end.sql"))?;
    let found = look.query_row([seq, claim], |row| Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(1)?)));
    Ok(match found.optional()? {
        None => Some(Extended::Lost),
        Some((_, until)) if until < enough => None,
        Some((false, _)) => Some(Extended::Yes),
        Some((true, _)) => Some(Extended::Cancelling),
    })
}

fn extend_one(tx: &Tx<'_>, token: Token, until: i64) -> Result<Extended, Failure> {
    let (claim, seq) = row::parts(token);
    let mut extend = tx.connection.prepare_cached(include_str!("../../sql/jobs/extend.sql"))?;
    let cancelling = extend.query_row([seq, claim, until], |row| row.get::<_, bool>(0)).optional()?;
    Ok(match cancelling {
        Some(false) => Extended::Yes,
        Some(true) => Extended::Cancelling,
        None => Extended::Lost,
    })
}

pub(crate) async fn expired(
    store: &SqliteStore,
    expired: ListExpiredParams<'_>,
) -> Result<ExpiredLeases, Error> {
    let after = match &expired.cursor {
        None => i64::MIN,
        Some(cursor) => {
            cursor.parse().map_err(|_| Error::Invalid(format!("{cursor:?} is no place in a page")))?
        }
    };
    let limit = expired.limit;
    let (now, rows) = store.read(move |tx| Ok((tx.now, expired_page(tx, after, limit)?))).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|(leased, ..)| row::parts(leased.token).1);
    let hold = |(leased, by, queue): (Leased, String, Queue)| ExpiredLease {
        claimed: leased.read(&queue),
        holder: by,
    };
    let holds = rows.into_iter().map(hold).collect();
    Ok(ExpiredLeases { leases: holds, next: next.map(|seq| seq.to_string()), shard_times: vec![(0, now)] })
}

fn expired_page(tx: &Tx<'_>, after: i64, limit: usize) -> Result<Vec<(Leased, String, Queue)>, Failure> {
    let mut expired = tx.connection.prepare_cached(include_str!("../../sql/jobs/expired.sql"))?;
    let mut rows = expired.query(params![tx.now.0, after, limit as i64])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, claim) = (row.get(0)?, row.get(1)?);
        let (id, body) = (row::job_id(row, 4, seq)?, row::body(row, 5)?);
        let leased = Leased { token: row::token(claim, seq), id, body, started: row.get(3)? };
        page.push((leased, row.get(2)?, row::queue(row, 6)?));
    }
    Ok(page)
}

/// How many jobs one transaction makes ready again.
const BATCH: usize = 4_096;

pub(crate) async fn clock_went_back(store: &SqliteStore, step: ClockStep) -> Result<(), Error> {
    let ClockStep { from, lease_limit } = step;
    let leases = move |tx: &mut Tx<'_>| {
        let latest = tx.now.after(lease_limit).0;
        Ok(tx.connection.execute(include_str!("../../sql/jobs/shorten.sql"), [latest])?)
    };
    store.write(Cost::change(BATCH), leases).await?;
    let ready = move |tx: &mut Tx<'_>| {
        let (now, limit) = (tx.now.0, BATCH as i64);
        tx.connection.execute(include_str!("../../sql/jobs/redate.sql"), [now, from.0, limit])?;
        let moved =
            tx.connection.execute(include_str!("../../sql/jobs/advance.sql"), [now, from.0, limit])?;
        tx.announcements.add(Wake::Everything);
        Ok(moved)
    };
    while store.write(Cost::change(BATCH), ready).await? == BATCH {}
    Ok(())
}

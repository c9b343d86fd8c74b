//! Taking jobs off the front of a queue's line, and waiting for some.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, params};
use tidemill_core::name::{HolderId, JobId, Queue};
use tidemill_core::store::{ClaimParams, Claimed};
use tidemill_core::wake::Polled;
use tidemill_core::{Error, Store};

use super::prospect::{Prospect, prospect};
use super::queue;
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::row::{self, Leased};
use crate::store::SqliteStore;

/// The most one claim takes, however much it asks for: it bounds what a transaction holds up.
const MOST: usize = 4_096;

pub(crate) async fn claim(store: &SqliteStore, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
    let order = Order::of(&claim);
    let ClaimParams { queue, wait, mut interrupt, .. } = claim;
    if wait.is_zero() {
        return Ok(take(store, &order).await?.jobs);
    }
    let _ear = store.hear();
    let mut ends = store.clock().sleep(wait);
    loop {
        let turn = tokio::select! {
            biased;
            () = &mut interrupt => return Ok(Vec::new()),
            turn = store.bus().wait_queues().poll_permit(queue, store.clock()) => turn,
            () = &mut ends => return Ok(Vec::new()),
        };
        let found = if turn.is_speculative() {
            take_if_ready(store, &order).await
        } else {
            take(store, &order).await
        };
        let jobs = turn.finish(found)?;
        if !jobs.is_empty() {
            return Ok(jobs);
        }
    }
}

/// Most of what other processes do concerns other queues, so a look without the write lock goes first.
async fn take_if_ready(store: &SqliteStore, order: &Order) -> Result<Polled, Error> {
    match prospect(store, &order.queue).await? {
        Prospect::Ready => take(store, order).await,
        Prospect::Due(next) => Ok(Polled { next, ..Polled::default() }),
    }
}

/// What is wanted, owned: it travels to the writer.
#[derive(Debug, Clone)]
struct Order {
    queue: Queue,
    worker: HolderId,
    lease: Duration,
    max: usize,
    starting: usize,
}

impl Order {
    fn of(claim: &ClaimParams<'_>) -> Self {
        let ClaimParams { lease, max, starting, .. } = *claim;
        let (queue, worker) = (claim.queue.clone(), claim.worker.clone());
        Self { queue, worker, lease, max: max.min(MOST), starting }
    }
}

async fn take(store: &SqliteStore, order: &Order) -> Result<Polled, Error> {
    let sent = order.clone();
    let (rows, rest) =
        store.write(Cost::change(order.max).for_caller(), move |tx| take_front(tx, &sent)).await?;
    // Envelopes are read here, by the caller's thread: the writer has others to serve.
    let jobs = rows.into_iter().map(|row| row.read(&order.queue)).collect();
    Ok(match rest {
        Prospect::Ready => Polled { jobs, more: true, next: None },
        Prospect::Due(next) => Polled { jobs, more: false, next },
    })
}

/// Takes what is wanted, and says what is left.
fn take_front(tx: &mut Tx<'_>, order: &Order) -> Result<(Vec<Leased>, Prospect), Failure> {
    let open = queue::find(tx.connection, &order.queue)?.filter(|known| !known.paused);
    let Some(known) = open else { return Ok((Vec::new(), Prospect::Due(None))) };
    let front = front(tx, known.number, order)?;
    let Some(last) = front.last() else { return Ok((Vec::new(), Prospect::after_all(tx, known.number)?)) };
    let claim = next_token(tx.connection)?;
    // Where the started ones end; nowhere if none starts.
    let begun =
        order.starting.min(front.len()).checked_sub(1).map_or(Place::NOWHERE, |index| front[index].place);
    lease(tx, order, Front { queue: known.number, claim, last: last.place, begun })?;
    let mut leave = tx.connection.prepare_cached(include_str!("../../sql/jobs/take.sql"))?;
    leave.execute([known.number, last.place.due, last.place.seq])?;
    let took_all = front.len() < order.max;
    let rest = if took_all { Prospect::after_all(tx, known.number) } else { Prospect::of(tx, known.number) }?;
    Ok((front.into_iter().map(|first| first.leased(claim)).collect(), rest))
}

/// A place in a queue's line.
#[derive(Debug, Clone, Copy)]
struct Place {
    due: i64,
    seq: i64,
}

impl Place {
    const NOWHERE: Self = Self { due: i64::MIN, seq: i64::MIN };
}

/// A job at the front of a line.
struct First {
    place: Place,
    started: bool,
    id: JobId,
    body: Bytes,
}

impl First {
    fn leased(self, claim: i64) -> Leased {
        let Self { place, started, id, body } = self;
        Leased { token: row::token(claim, place.seq), id, body, started }
    }
}

fn front(tx: &Tx<'_>, queue: i64, order: &Order) -> Result<Vec<First>, Failure> {
    let mut claim = tx.connection.prepare_cached(include_str!("../../sql/jobs/claim.sql"))?;
    let mut rows = claim.query(params![queue, tx.now.0, order.max as i64])?;
    let mut front = Vec::with_capacity(order.max.min(256));
    while let Some(row) = rows.next()? {
        let place = Place { due: row.get(0)?, seq: row.get(1)? };
        let (id, body) = (row::job_id(row, 2, place.seq)?, row::body(row, 3)?);
        front.push(First { place, started: front.len() < order.starting, id, body });
    }
    Ok(front)
}

/// The part of a line that a claim takes.
struct Front {
    queue: i64,
    claim: i64,
    last: Place,
    begun: Place,
}

fn lease(tx: &Tx<'_>, order: &Order, front: Front) -> Result<(), Failure> {
    let Front { queue, claim, last, begun } = front;
    let (until, worker) = (tx.now.after(order.lease).0, order.worker.as_str());
    let mut lease = tx.connection.prepare_cached(include_str!("../../sql/jobs/lease.sql"))?;
    lease.execute(params![queue, last.due, last.seq, claim, until, worker, begun.due, begun.seq])?;
    Ok(())
}

fn next_token(connection: &Connection) -> Result<i64, Failure> {
    let mut fence = connection.prepare_cached(include_str!("../../sql/jobs/fence.sql"))?;
    Ok(fence.query_row([], |row| row.get(0))?)
}

//! Taking jobs off the front of a queue's line, and waiting for some.

use std::future::pending;
use std::time::Duration;

use rusqlite::{Connection, params};
use tidemill_core::name::{Queue, WorkerId};
use tidemill_core::store::{Claim, Claimed, Interrupt};
use tidemill_core::{Error, Store, Timestamp};

use super::queue;
use crate::call::Tx;
use crate::error::Failure;
use crate::row::{self, Leased};
use crate::store::SqliteStore;
use crate::wake::{Hint, Listener};

/// The most one claim takes, however much it asks for: it bounds what a transaction holds up.
const MOST: usize = 4_096;

pub(crate) async fn claim(store: &SqliteStore, claim: Claim<'_>) -> Result<Vec<Claimed>, Error> {
    let order = Order::of(&claim);
    let Claim { queue, wait, interrupt, .. } = claim;
    if wait.is_zero() {
        return Ok(take(store, &order).await?.jobs);
    }
    // Listening begins before the first look, so that work added between the two is not missed.
    let ends = store.clock().sleep(wait);
    let mut patience = Patience { store, queue, listener: store.hear(), ends, interrupt };
    loop {
        let taken = take(store, &order).await?;
        if !taken.jobs.is_empty() || !patience.until_work(taken.next).await? {
            return Ok(taken.jobs);
        }
    }
}

/// What is wanted, owned: it travels to the writer.
#[derive(Debug, Clone)]
struct Order {
    queue: Queue,
    worker: WorkerId,
    lease: Duration,
    max: usize,
    starting: usize,
}

impl Order {
    fn of(claim: &Claim<'_>) -> Self {
        let Claim { lease, max, starting, .. } = *claim;
        let (queue, worker) = (claim.queue.clone(), claim.worker.clone());
        Self { queue, worker, lease, max: max.min(MOST), starting }
    }
}

/// What a look at a queue gave.
struct Taken {
    jobs: Vec<Claimed>,
    /// When to look again if there was nothing.
    next: Option<Timestamp>,
}

async fn take(store: &SqliteStore, order: &Order) -> Result<Taken, Error> {
    let sent = order.clone();
    let (rows, next) = store.write(order.max, move |tx| take_front(tx, &sent)).await?;
    // Envelopes are read here, by the caller's thread: the writer has others to serve.
    let jobs = rows.into_iter().map(|row| row.read(&order.queue)).collect();
    Ok(Taken { jobs, next })
}

fn take_front(tx: &mut Tx<'_>, order: &Order) -> Result<(Vec<Leased>, Option<Timestamp>), Failure> {
    let open = queue::find(tx.connection, &order.queue)?.filter(|known| !known.paused);
    let Some(known) = open else { return Ok((Vec::new(), None)) };
    let front = front(tx, known.number, order.max)?;
    let Some(last) = front.last() else { return Ok((Vec::new(), queue::next_due(tx, known.number)?)) };
    let mut leave = tx.connection.prepare_cached(include_str!("../../sql/jobs/take.sql"))?;
    leave.execute([known.number, last.due, last.seq])?;
    Ok((lease_all(tx, known.number, order, front)?, None))
}

/// A job at the front of a line.
struct First {
    due: i64,
    seq: i64,
    id: tidemill_core::JobId,
    body: bytes::Bytes,
}

fn front(tx: &Tx<'_>, queue: i64, max: usize) -> Result<Vec<First>, Failure> {
    let mut claim = tx.connection.prepare_cached(include_str!("../../sql/jobs/claim.sql"))?;
    let mut rows = claim.query(params![queue, tx.now.0, max as i64])?;
    let mut front = Vec::with_capacity(max.min(256));
    while let Some(row) = rows.next()? {
        let (due, seq) = (row.get(0)?, row.get(1)?);
        front.push(First { due, seq, id: row::job_id(row, 2, seq)?, body: row::body(row, 3)? });
    }
    Ok(front)
}

fn lease_all(tx: &Tx<'_>, queue: i64, order: &Order, front: Vec<First>) -> Result<Vec<Leased>, Failure> {
    let (claim, until) = (next_token(tx.connection)?, tx.now.after(order.lease));
    let mut lease = tx.connection.prepare_cached(include_str!("../../sql/jobs/lease.sql"))?;
    let mut leased = Vec::with_capacity(front.len());
    for (index, First { seq, id, body, .. }) in front.into_iter().enumerate() {
        let started = index < order.starting;
        lease.execute(params![seq, claim, queue, until.0, order.worker.as_str(), started])?;
        leased.push(Leased { token: row::token(claim, seq), id, body, started });
    }
    Ok(leased)
}

fn next_token(connection: &Connection) -> Result<i64, Failure> {
    let mut fence = connection.prepare_cached(include_str!("../../sql/jobs/fence.sql"))?;
    Ok(fence.query_row([], |row| row.get(0))?)
}

/// A claim that waits: what can end the waiting.
struct Patience<'c> {
    store: &'c SqliteStore,
    queue: &'c Queue,
    listener: Listener,
    ends: Interrupt<'static>,
    interrupt: Interrupt<'c>,
}

impl Patience<'_> {
    /// Waits until there may be work, or until `due`; `false` when the waiting is over.
    async fn until_work(&mut self, due: Option<Timestamp>) -> Result<bool, Error> {
        let mut comes_due = sleep_until(self.store, due);
        loop {
            let hint = tokio::select! {
                biased;
                () = &mut self.interrupt => return Ok(false),
                () = &mut comes_due => Hint::Queue,
                hint = self.listener.about(self.queue) => hint,
                () = &mut self.ends => return Ok(false),
            };
            if hint == Hint::Queue {
                return Ok(true);
            }
            match prospect(self.store, self.queue).await? {
                Prospect::Ready => return Ok(true),
                Prospect::Due(due) => comes_due = sleep_until(self.store, due),
            }
        }
    }
}

fn sleep_until(store: &SqliteStore, due: Option<Timestamp>) -> Interrupt<'static> {
    let clock = store.clock();
    due.map_or_else(|| Box::pin(pending()) as _, |due| clock.sleep(clock.now().until(due)))
}

/// What a queue has to give.
enum Prospect {
    /// A job, now.
    Ready,
    /// None before this time.
    Due(Option<Timestamp>),
}

/// Looks without a write lock: most of what other processes do concerns other queues.
async fn prospect(store: &SqliteStore, queue: &Queue) -> Result<Prospect, Error> {
    let queue = queue.clone();
    let look = move |tx: &mut Tx<'_>| {
        let open = queue::find(tx.connection, &queue)?.filter(|known| !known.paused);
        let Some(known) = open else { return Ok(Prospect::Due(None)) };
        let mut ready = tx.connection.prepare_cached(include_str!("../../sql/jobs/ready.sql"))?;
        let is_ready = ready.query_row([known.number, tx.now.0], |row| row.get(0))?;
        Ok(if is_ready { Prospect::Ready } else { Prospect::Due(queue::next_due(tx, known.number)?) })
    };
    store.read(look).await
}

//! `claim`: leases the first due jobs of a queue, and waits if there are none.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, params};
use tidemill_core::name::{HolderId, JobId, Queue};
use tidemill_core::store::{ClaimParams, Claimed};
use tidemill_core::wake::Polled;
use tidemill_core::{Error, Store};

use super::peek::{QueuePeek, peek};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::row::{self, LeasedRow};
use crate::store::SqliteStore;

/// Deletes a queue's waiting jobs up to the last claimed one: one range, because a claim takes a
/// prefix.
const DELETE_WAITING_UP_TO: &str = "DELETE FROM tidemill_waiting WHERE queue = ?1 AND (due, seq) <= (?2, ?3)";

/// Leases a queue's waiting jobs up to the last claimed one, in one statement. Jobs up to the last
/// one that starts at once count as started. The primary key prevents a second lease of the same
/// job.
const INSERT_LEASES: &str = "
    INSERT INTO tidemill_running (seq, token, queue, until, worker, started)
    SELECT seq, ?4, queue, ?5, ?6, (due, seq) <= (?7, ?8) FROM tidemill_waiting
    WHERE queue = ?1 AND (due, seq) <= (?2, ?3)";

/// The next token. All jobs of a claim share it: together with the job's number it is unique.
const NEXT_TOKEN: &str = "UPDATE tidemill_fence SET token = token + 1 RETURNING token";

/// The most jobs that one claim takes, whatever it asks for. It bounds the length of a transaction.
const MAX_CLAIMED_JOBS: usize = 4_096;

pub(crate) async fn claim(store: &SqliteStore, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
    let args = ClaimArgs::new(&claim);
    let ClaimParams { queue, wait, mut interrupt, .. } = claim;
    if wait.is_zero() {
        return Ok(claim_now(store, &args).await?.jobs);
    }
    let _listening = store.bus().listen();
    let mut deadline = store.clock().sleep(wait);
    loop {
        let permit = tokio::select! {
            biased;
            () = &mut interrupt => return Ok(Vec::new()),
            permit = store.bus().wait_queues().poll_permit(queue, store.clock()) => permit,
            () = &mut deadline => return Ok(Vec::new()),
        };
        let polled = if permit.is_speculative() {
            claim_if_ready(store, &args).await
        } else {
            claim_now(store, &args).await
        };
        let jobs = permit.finish(polled)?;
        if !jobs.is_empty() {
            return Ok(jobs);
        }
    }
}

/// Claims jobs if a peek without the write lock finds any. Most writes of other processes concern
/// other queues.
async fn claim_if_ready(store: &SqliteStore, args: &ClaimArgs) -> Result<Polled, Error> {
    match peek(store, &args.queue).await? {
        QueuePeek::Ready => claim_now(store, args).await,
        QueuePeek::Due(next) => Ok(Polled { next, ..Polled::default() }),
    }
}

/// The parameters of a claim, owned, because they are sent to the writer thread.
#[derive(Debug, Clone)]
struct ClaimArgs {
    queue: Queue,
    worker: HolderId,
    lease: Duration,
    max: usize,
    starting: usize,
}

impl ClaimArgs {
    fn new(claim: &ClaimParams<'_>) -> Self {
        let ClaimParams { lease, max, starting, .. } = *claim;
        let (queue, worker) = (claim.queue.clone(), claim.worker.clone());
        Self { queue, worker, lease, max: max.min(MAX_CLAIMED_JOBS), starting }
    }
}

async fn claim_now(store: &SqliteStore, args: &ClaimArgs) -> Result<Polled, Error> {
    let sent = args.clone();
    let (rows, rest) =
        store.write(Cost::change(args.max).skip_if_abandoned(), move |tx| claim_due(tx, &sent)).await?;
    // Envelopes are parsed here, on the caller's thread, because the writer serves all callers.
    let jobs = rows.into_iter().map(|row| row.into_claimed(&args.queue)).collect();
    Ok(match rest {
        QueuePeek::Ready => Polled { jobs, more: true, next: None },
        QueuePeek::Due(next) => Polled { jobs, more: false, next },
    })
}

/// Leases the first due jobs. Returns them, and what the queue still has.
fn claim_due(tx: &mut Tx<'_>, args: &ClaimArgs) -> Result<(Vec<LeasedRow>, QueuePeek), RequestError> {
    let open = queue_row::find(tx.connection, &args.queue)?.filter(|row| !row.paused);
    let Some(row) = open else { return Ok((Vec::new(), QueuePeek::Due(None))) };
    let due = due_jobs(tx, row.number, args)?;
    let Some(last) = due.last() else {
        return Ok((Vec::new(), QueuePeek::next_scheduled(tx, row.number)?));
    };
    let claim = next_token(tx.connection)?;
    // The last job that starts at once; a position before all jobs if none does.
    let last_started = args.starting.min(due.len()).checked_sub(1);
    let last_started = last_started.map_or(WaitingKey::BEFORE_ALL, |index| due[index].key);
    lease(tx, args, ClaimRange { queue: row.number, claim, last: last.key, last_started })?;
    let mut delete = tx.connection.prepare_cached(DELETE_WAITING_UP_TO)?;
    delete.execute([row.number, last.key.due, last.key.seq])?;
    let all_claimed = due.len() < args.max;
    let rest =
        if all_claimed { QueuePeek::next_scheduled(tx, row.number) } else { QueuePeek::new(tx, row.number) }?;
    Ok((due.into_iter().map(|job| job.into_leased(claim)).collect(), rest))
}

/// The position of a job in `waiting`, within its queue.
#[derive(Debug, Clone, Copy)]
struct WaitingKey {
    due: i64,
    seq: i64,
}

impl WaitingKey {
    const BEFORE_ALL: Self = Self { due: i64::MIN, seq: i64::MIN };
}

/// A job that is due.
struct DueJob {
    key: WaitingKey,
    started: bool,
    id: JobId,
    body: Bytes,
}

impl DueJob {
    fn into_leased(self, claim: i64) -> LeasedRow {
        let Self { key, started, id, body } = self;
        LeasedRow { token: row::token(claim, key.seq), id, body, started }
    }
}

fn due_jobs(tx: &Tx<'_>, queue: i64, args: &ClaimArgs) -> Result<Vec<DueJob>, RequestError> {
    let mut claim = tx.connection.prepare_cached(sql!("jobs/claim"))?;
    let mut rows = claim.query(params![queue, tx.now.0, args.max as i64])?;
    let mut due = Vec::with_capacity(args.max.min(256));
    while let Some(row) = rows.next()? {
        let key = WaitingKey { due: row.get(0)?, seq: row.get(1)? };
        let (id, body) = (row::job_id(row, 2, key.seq)?, row::body(row, 3)?);
        due.push(DueJob { key, started: due.len() < args.starting, id, body });
    }
    Ok(due)
}

/// The range of `waiting` that a claim takes.
struct ClaimRange {
    queue: i64,
    claim: i64,
    last: WaitingKey,
    last_started: WaitingKey,
}

fn lease(tx: &Tx<'_>, args: &ClaimArgs, range: ClaimRange) -> Result<(), RequestError> {
    let ClaimRange { queue, claim, last, last_started } = range;
    let (until, worker) = (tx.now.after(args.lease).0, args.worker.as_str());
    let mut lease = tx.connection.prepare_cached(INSERT_LEASES)?;
    let params = params![queue, last.due, last.seq, claim, until, worker, last_started.due, last_started.seq];
    lease.execute(params)?;
    Ok(())
}

fn next_token(connection: &Connection) -> Result<i64, RequestError> {
    let mut next = connection.prepare_cached(NEXT_TOKEN)?;
    Ok(next.query_row([], |row| row.get(0))?)
}

//! Claiming jobs, and waiting for some to claim.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::store::{Claim, Claimed};
use tidemill_core::{Error, Queue, WorkerId};
use tokio::time::{Instant, sleep_until};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{job_at, lease, ms};
use crate::Inner;
use crate::sql::CLAIM;
use crate::wake::{Listener, concerns};

/// How often an idle claim looks although nothing has called it: a lost wake-up costs this much. The same
/// again is added at random, so that a fleet does not look in step.
const POLL: Duration = Duration::from_secs(2);

/// What a look at a queue is for.
#[derive(Clone, Copy)]
struct Look<'a> {
    queue: &'a Queue,
    worker: &'a WorkerId,
    lease: Duration,
    max: usize,
    starting: usize,
}

/// What a look at a queue found.
struct Found {
    jobs: Vec<Claimed>,
    /// If there was nothing: how long until there will be.
    next_in: Option<Duration>,
}

impl Inner {
    /// Claims jobs, waiting for some if there are none.
    pub(crate) async fn claim(&self, mut claim: Claim<'_>) -> Result<Vec<Claimed>, Error> {
        let Claim { queue, worker, lease, max, starting, .. } = claim;
        let look = Look { queue, worker, lease, max, starting };
        if claim.wait.is_zero() {
            return Ok(self.take(look).await?.jobs);
        }
        // Listening begins before the first look, so that what comes between the two is not missed.
        let mut listener = self.hub.listener();
        let end = Instant::now() + claim.wait;
        loop {
            let found = self.take(look).await?;
            let next_look = (Instant::now() + pause(found.next_in)).min(end);
            if !found.jobs.is_empty() || Instant::now() >= end {
                return Ok(found.jobs);
            }
            tokio::select! {
                biased;
                () = &mut claim.interrupt => return Ok(Vec::new()),
                () = work_for(&mut listener, queue) => {}
                () = sleep_until(next_look) => if next_look >= end { return Ok(Vec::new()) },
            }
        }
    }

    /// Looks from the queue's mark and, if there is nothing, from the beginning.
    async fn take(&self, look: Look<'_>) -> Result<Found, Error> {
        let Some(queue) = self.find_number(look.queue).await? else {
            return Ok(Found { jobs: Vec::new(), next_in: None });
        };
        let start = self.marks.start(queue);
        let found = self.take_from(look, queue, start).await?;
        if found.jobs.is_empty() && start > 0 { self.take_from(look, queue, 0).await } else { Ok(found) }
    }

    async fn take_from(&self, look: Look<'_>, queue: i32, start: i64) -> Result<Found, Error> {
        let (lease, worker) = (ms(look.lease), look.worker.as_str());
        let (max, starting) = (count(look.max.max(1)), count(look.starting));
        let params: [&(dyn ToSql + Sync); 6] = [&queue, &worker, &lease, &max, &starting, &start];
        let mut rows = self.pool.query(&CLAIM, &params).await?;
        // A statement's answer has no order of its own.
        rows.sort_by_cached_key(|row| (row.get::<_, Option<i64>>("due"), row.get::<_, Option<i64>>("seq")));
        match rows.first().and_then(|row| row.get("due")) {
            Some(oldest) if rows.len() >= look.max => self.marks.full(queue, start, oldest),
            _ => self.marks.short(queue),
        }
        read(look, &rows)
    }
}

fn read(look: Look<'_>, rows: &[Row]) -> Result<Found, Error> {
    let next_in = rows.first().and_then(|row| row.get::<_, Option<i64>>("next_in"));
    let taken = rows.iter().filter(|row| row.get::<_, Option<i64>>("seq").is_some());
    let jobs = taken.enumerate().map(|(at, row)| read_job(look, row, at < look.starting));
    Ok(Found {
        jobs: jobs.collect::<Result<_, _>>()?,
        next_in: next_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
    })
}

fn read_job(look: Look<'_>, row: &Row, started: bool) -> Result<Claimed, Error> {
    let (id, seq) = (job_at(row)?, row.get("seq"));
    let data = Bytes::copy_from_slice(row.get("envelope"));
    // The row's id counts and not the envelope's: it is what the lease is found by.
    Ok(Claimed::read(data, started, |_| lease(look.queue, id, seq)))
}

fn pause(next_in: Option<Duration>) -> Duration {
    let poll = POLL + POLL.mul_f64(fastrand::f64());
    next_in.map_or(poll, |next| next.min(poll))
}

async fn work_for(listener: &mut Listener, queue: &Queue) {
    while !concerns(&listener.next().await, queue) {}
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

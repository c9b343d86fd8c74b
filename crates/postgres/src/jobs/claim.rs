//! Claiming jobs, and waiting for some to claim.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::store::{ClaimParams, Claimed};
use tidemill_core::wake::Polled;
use tidemill_core::{Clock, Error, HolderId, Queue};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::mark::{self, Place};
use super::{job_at, lease, ms};
use crate::Inner;
use crate::sql::CLAIM;

/// What a look at a queue is for.
#[derive(Clone, Copy)]
struct Look<'a> {
    queue: &'a Queue,
    worker: &'a HolderId,
    lease: Duration,
    max: usize,
    starting: usize,
}

impl Inner {
    /// Claims jobs, waiting for some if there are none.
    pub(crate) async fn claim(&self, mut claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        let ClaimParams { queue, worker, lease, max, starting, .. } = claim;
        let look = Look { queue, worker, lease, max, starting };
        if claim.wait.is_zero() {
            return Ok(self.take(look).await?.jobs);
        }
        let mut end = pin!(tokio::time::sleep(claim.wait));
        loop {
            let turn = tokio::select! {
                biased;
                () = &mut claim.interrupt => return Ok(Vec::new()),
                turn = self.bus.wait_queues().poll_permit(queue, &self.pool.clock) => turn,
                () = &mut end => return Ok(Vec::new()),
            };
            let jobs = turn.finish(self.take(look).await)?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
    }

    /// Looks from the queue's mark and, if there is nothing, from the beginning, unless that was slow the last time.
    async fn take(&self, look: Look<'_>) -> Result<Polled, Error> {
        let Some(queue) = self.find_number(look.queue).await? else {
            return Ok(Polled::default());
        };
        let start = self.marks.start(queue);
        let found = self.take_from(look, queue, start).await?;
        if !found.jobs.is_empty() || start == Place::BEGINNING {
            return Ok(found);
        }
        match self.marks.rests_for(queue) {
            Some(rest) => {
                let swept = self.pool.clock.now().after(rest);
                Ok(Polled { next: Some(found.next.map_or(swept, |next| next.min(swept))), ..found })
            }
            None => self.take_from(look, queue, Place::BEGINNING).await,
        }
    }

    async fn take_from(&self, look: Look<'_>, queue: i32, start: Place) -> Result<Polled, Error> {
        let (lease, worker) = (ms(look.lease), look.worker.as_str());
        let (max, starting) = (count(look.max.max(1)), count(look.starting));
        let params: [&(dyn ToSql + Sync); 7] =
            [&queue, &worker, &lease, &max, &starting, &start.due, &start.seq];
        let began = self.pool.clock.now();
        let mut rows = self.pool.query(&CLAIM, &params).await?;
        // By the server's clock: how far away the server is says nothing of dead rows.
        let took = rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>("took")).unwrap_or(0));
        let sight = mark::Look { start, took: Duration::from_micros(took), began };
        // The one row without a number says when the next job is due.
        let next_in = rows.iter().find_map(|row| row.get::<_, Option<i64>>("next_in"));
        let next_in = next_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        let is_open = rows.iter().all(|row| row.get("is_open"));
        rows.retain(|row| row.get::<_, Option<i64>>("seq").is_some());
        // A statement's answer has no order of its own.
        rows.sort_by_cached_key(place);
        let full = rows.len() >= look.max.max(1);
        if full {
            self.marks.full(queue, sight, &rows.iter().map(place).collect::<Vec<_>>());
        } else if is_open {
            self.marks.short(queue, sight);
        }
        let jobs = rows.iter().enumerate().map(|(at, row)| read_job(look, row, at < look.starting));
        Ok(Polled {
            // A look that began at the mark has not seen what may have turned up behind it.
            more: full || (start > Place::BEGINNING && !rows.is_empty()),
            jobs: jobs.collect::<Result<_, _>>()?,
            next: next_in.map(|next| self.pool.clock.now().after(next)),
        })
    }
}

fn place(row: &Row) -> Place {
    Place { due: row.get("due"), seq: row.get("seq") }
}

fn read_job(look: Look<'_>, row: &Row, started: bool) -> Result<Claimed, Error> {
    let (id, seq) = (job_at(row)?, row.get("seq"));
    let data = Bytes::copy_from_slice(row.get("envelope"));
    // The row's id counts and not the envelope's: it is what the lease is found by.
    Ok(Claimed::read(data, started, |_| lease(look.queue, id, seq)))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

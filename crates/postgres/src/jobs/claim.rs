//! `claim`: leases the first due jobs of a queue, and waits if there are none.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::store::{ClaimParams, Claimed};
use tidemill_core::wake::Polled;
use tidemill_core::{Clock, Error, HolderId, Queue};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::low_water_mark::{ClaimScan, QueuePosition};
use super::{job_id_from_row, lease, ms};
use crate::Inner;
use crate::sql::CLAIM;

/// The parameters of a claim.
#[derive(Clone, Copy)]
struct ClaimQuery<'a> {
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
        let args = ClaimQuery { queue, worker, lease, max, starting };
        if claim.wait.is_zero() {
            return Ok(self.claim_now(args).await?.jobs);
        }
        let mut end = pin!(tokio::time::sleep(claim.wait));
        loop {
            let permit = tokio::select! {
                biased;
                () = &mut claim.interrupt => return Ok(Vec::new()),
                permit = self.bus.wait_queues().poll_permit(queue, &*self.pool.clock) => permit,
                () = &mut end => return Ok(Vec::new()),
            };
            let jobs = permit.finish(self.claim_now(args).await)?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
    }

    /// Claims from the queue's low-water mark. If that finds nothing, it claims from the start of
    /// the queue, unless that was slow the last time.
    async fn claim_now(&self, args: ClaimQuery<'_>) -> Result<Polled, Error> {
        let Some(queue) = self.find_queue_id(args.queue).await? else {
            return Ok(Polled::default());
        };
        let start = self.low_water_marks.start(queue);
        let polled = self.claim_from(args, queue, start).await?;
        if !polled.jobs.is_empty() || start == QueuePosition::START {
            return Ok(polled);
        }
        match self.low_water_marks.pause_left(queue) {
            Some(pause) => {
                let full_scan = self.pool.clock.now().after(pause);
                Ok(Polled { next: Some(polled.next.map_or(full_scan, |next| next.min(full_scan))), ..polled })
            }
            None => self.claim_from(args, queue, QueuePosition::START).await,
        }
    }

    async fn claim_from(
        &self,
        args: ClaimQuery<'_>,
        queue: i32,
        start: QueuePosition,
    ) -> Result<Polled, Error> {
        let (lease, worker) = (ms(args.lease), args.worker.as_str());
        let (max, starting) = (count(args.max.max(1)), count(args.starting));
        let params: [&(dyn ToSql + Sync); 7] =
            [&queue, &worker, &lease, &max, &starting, &start.due, &start.seq];
        let began = self.pool.clock.now();
        let mut rows = self.pool.query(&CLAIM, &params).await?;
        // By the server's clock: network latency says nothing about dead rows.
        let took = rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>("took")).unwrap_or(0));
        let scan = ClaimScan { start, took: Duration::from_micros(took), began };
        // The one row without a number contains the time until the next job is due.
        let next_in = rows.iter().find_map(|row| row.get::<_, Option<i64>>("next_in"));
        let next_in = next_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        let is_open = rows.iter().all(|row| row.get("is_open"));
        rows.retain(|row| row.get::<_, Option<i64>>("seq").is_some());
        // The rows of a statement have no order.
        rows.sort_by_cached_key(position);
        let full = rows.len() >= args.max.max(1);
        if full {
            self.low_water_marks.record_full(queue, scan, &rows.iter().map(position).collect::<Vec<_>>());
        } else if is_open {
            self.low_water_marks.record_short(queue, scan);
        }
        let jobs = rows.iter().enumerate().map(|(at, row)| claimed_from_row(args, row, at < args.starting));
        Ok(Polled {
            // A claim from the mark has not seen jobs that may have appeared before it.
            more: full || (start > QueuePosition::START && !rows.is_empty()),
            jobs: jobs.collect::<Result<_, _>>()?,
            next: next_in.map(|next| self.pool.clock.now().after(next)),
        })
    }
}

fn position(row: &Row) -> QueuePosition {
    QueuePosition { due: row.get("due"), seq: row.get("seq") }
}

fn claimed_from_row(args: ClaimQuery<'_>, row: &Row, started: bool) -> Result<Claimed, Error> {
    let (id, seq) = (job_id_from_row(row)?, row.get("seq"));
    let data = Bytes::copy_from_slice(row.get("envelope"));
    // The id of the row counts, not the one in the envelope: it is the key of the lease.
    Ok(Claimed::read(data, started, |_| lease(args.queue, id, seq)))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

//! The benchmark of queue depth: the cost of a claim in short and in very long queues.
//!
//! Each depth has its own queue and the queues are measured in turn, so that noise of the machine
//! affects all of them. Every claim is followed by an enqueue of as many jobs, so a queue keeps its
//! depth.

use std::time::Instant;

use bytes::Bytes;
use tidemill::baseline::Baseline;
use tidemill::settle::{Change, Settlement};
use tidemill::store::HolderId;
use tidemill::store::{ClaimParams, SettleParams, Verdict};
use tidemill::{Client, Guarantee, Queue, QueueName};

use super::quantile;
use super::throughput::envelopes;
use super::workload::{BenchError, Noop};

/// Jobs per claim.
const CLAIM_JOBS: usize = 100;

/// Jobs per enqueue call while a queue is filled.
const FILL_BATCH_JOBS: usize = 50_000;

/// Claims before the first measured one.
const WARM_UP_CLAIMS: usize = 20;

/// The result for one depth.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct DepthRow {
    /// The number of waiting jobs.
    pub(crate) depth: usize,
    /// Median time of a claim of 100 jobs.
    pub(crate) claim_p50_us: f64,
    /// Median time of a claim of 100 jobs and their settlement.
    pub(crate) take_p50_us: f64,
    /// The same in the raw loop: read or mark as taken, and acknowledge.
    pub(crate) raw_take_p50_us: f64,
    /// The time of a claim relative to the first depth.
    pub(crate) claim_to_first: f64,
    /// The time of claim and settlement relative to the first depth.
    pub(crate) take_to_first: f64,
    /// The same for the raw loop: the cost of the store itself.
    pub(crate) raw_to_first: f64,
}

/// Measures `samples` claims at each depth.
pub(crate) async fn run(
    client: &Client,
    baseline: &dyn Baseline,
    depths: &[usize],
    samples: usize,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<DepthRow>, BenchError> {
    let mut raw_times = Vec::new();
    for depth in depths {
        report_progress(&format!("raw loop, {depth} waiting"));
        raw_times.push(measure_raw(baseline, *depth, samples).await?);
    }
    baseline.clear().await?;
    let mut queues = Vec::new();
    for depth in depths {
        report_progress(&format!("filling a queue with {depth}"));
        queues.push(DepthQueue::fill(client, *depth, baseline.batch().enqueue).await?);
    }
    for sample in 0..WARM_UP_CLAIMS + samples {
        for queue in &mut queues {
            queue.take(sample >= WARM_UP_CLAIMS).await?;
        }
    }
    let mut rows: Vec<DepthRow> = Vec::new();
    for (queue, raw_take_p50_us) in queues.into_iter().zip(raw_times) {
        rows.push(queue.finish(raw_take_p50_us, rows.first()).await?);
    }
    Ok(rows)
}

/// One queue and its measured times.
struct DepthQueue<'a> {
    client: &'a Client,
    queue: Queue,
    depth: usize,
    worker: HolderId,
    claims: Vec<f64>,
    takes: Vec<f64>,
}

impl<'a> DepthQueue<'a> {
    async fn fill(client: &'a Client, depth: usize, batch: usize) -> Result<Self, BenchError> {
        let name = QueueName::new(&format!("tidemill-bench-{depth}")).map_err(tidemill::Error::from)?;
        let queue = Queue { name, guarantee: Guarantee::AtLeastOnce };
        client.queue(queue.name.as_str()).guarantee(queue.guarantee).purge().await?;
        let worker = HolderId::new("tidemill-bench").map_err(tidemill::Error::from)?;
        let queue = Self { client, queue, depth, worker, claims: Vec::new(), takes: Vec::new() };
        let mut left = depth;
        while left > 0 {
            let some = left.min(FILL_BATCH_JOBS);
            queue.add(some, batch).await?;
            left -= some;
        }
        Ok(queue)
    }

    async fn add(&self, jobs: usize, batch: usize) -> Result<(), BenchError> {
        let jobs = self.client.jobs((0..jobs).map(Noop::new)).queue(self.queue.name.as_str());
        jobs.batch(batch).enqueue().await?;
        Ok(())
    }

    /// Claims, settles, and enqueues as many jobs as were claimed.
    async fn take(&mut self, counts: bool) -> Result<(), BenchError> {
        let (store, started) = (self.client.store(), Instant::now());
        let claimed =
            store.claim(ClaimParams::now(&self.queue, &self.worker, tidemill::mins(1), CLAIM_JOBS)).await?;
        let claim = started.elapsed();
        let finish = |claimed: tidemill::store::Claimed| Settlement {
            lease: claimed.lease,
            change: Change::Finish(None),
        };
        let settlements: Vec<_> = claimed.into_iter().map(finish).collect();
        let started = Instant::now();
        let verdicts = store.settle(SettleParams::current(&settlements)).await?;
        let take = claim + started.elapsed();
        let settled = verdicts.iter().filter(|verdict| **verdict == Verdict::Accepted).count();
        if settled < CLAIM_JOBS.min(self.depth) {
            return Err(BenchError::Miscount { expected: CLAIM_JOBS.min(self.depth), seen: settled as u64 });
        }
        if counts {
            self.claims.push(claim.as_secs_f64() * 1e6);
            self.takes.push(take.as_secs_f64() * 1e6);
        }
        self.add(settled, CLAIM_JOBS).await
    }

    async fn finish(
        mut self,
        raw_take_p50_us: f64,
        first: Option<&DepthRow>,
    ) -> Result<DepthRow, BenchError> {
        let store = self.client.store();
        store.purge(&self.queue).await?;
        store.leave(&self.worker, std::slice::from_ref(&self.queue)).await?;
        let (claim_p50_us, take_p50_us) = (quantile(&mut self.claims, 0.5), quantile(&mut self.takes, 0.5));
        let to_first = |own: f64, of: fn(&DepthRow) -> f64| first.map_or(1.0, |first| own / of(first));
        Ok(DepthRow {
            depth: self.depth,
            claim_p50_us,
            take_p50_us,
            raw_take_p50_us,
            claim_to_first: to_first(claim_p50_us, |row| row.claim_p50_us),
            take_to_first: to_first(take_p50_us, |row| row.take_p50_us),
            raw_to_first: to_first(raw_take_p50_us, |row| row.raw_take_p50_us),
        })
    }
}

/// The raw loop has only one queue, so its depths are measured one after the other.
async fn measure_raw(baseline: &dyn Baseline, depth: usize, samples: usize) -> Result<f64, BenchError> {
    baseline.clear().await?;
    let batch: Vec<Bytes> = envelopes(baseline.batch().enqueue.max(CLAIM_JOBS))?;
    let mut left = depth;
    while left > 0 {
        let some = left.min(batch.len());
        baseline.enqueue(&batch[..some]).await?;
        left -= some;
    }
    let mut times = Vec::with_capacity(samples);
    for sample in 0..WARM_UP_CLAIMS + samples {
        let started = Instant::now();
        let taken = baseline.claim(CLAIM_JOBS).await?;
        if sample >= WARM_UP_CLAIMS {
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
        baseline.enqueue(&batch[..taken]).await?;
    }
    Ok(quantile(&mut times, 0.5))
}

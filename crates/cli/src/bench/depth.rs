//! Depth: what it costs to take jobs out of a queue in which few others wait, and out of one in which very many do.
//!
//! Each depth has a queue of its own and they are asked in turn, so that whatever else the machine does meets all
//! of them. After every claim as many jobs are added as were taken: a queue stays as deep as it is said to be.

use std::time::Instant;

use bytes::Bytes;
use tidemill::baseline::Baseline;
use tidemill::settle::{Change, Settlement};
use tidemill::store::{ClaimParams, Verdict};
use tidemill::{Client, Guarantee, HolderId, Queue, QueueName};

use super::quantile;
use super::rate::envelopes;
use super::work::{BenchError, Noop};

/// How many jobs are taken at once.
const TAKE: usize = 100;

/// How many jobs are made before they are written, while a queue is filled.
const FILL: usize = 50_000;

/// So many claims come before the first that counts.
const WARM_UP: usize = 20;

/// What was measured for one depth.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct DepthRow {
    /// How many jobs wait.
    pub(crate) depth: usize,
    /// A claim of 100.
    pub(crate) claim_p50_us: f64,
    /// A claim of 100 and the settlement of all of them.
    pub(crate) take_p50_us: f64,
    /// The same in the raw loop: read, or mark as taken, and acknowledge.
    pub(crate) raw_take_p50_us: f64,
    /// The time of a claim by that at the first depth.
    pub(crate) claim_to_first: f64,
    /// The time of both by that at the first depth.
    pub(crate) take_to_first: f64,
    /// The same of the raw loop: what the store asks of everybody.
    pub(crate) raw_to_first: f64,
}

/// Times `samples` claims at each depth.
pub(crate) async fn run(
    client: &Client,
    floor: &dyn Baseline,
    (depths, samples): (&[usize], usize),
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<DepthRow>, BenchError> {
    let mut raws = Vec::new();
    for depth in depths {
        say(&format!("raw loop, {depth} waiting"));
        raws.push(raw(floor, *depth, samples).await?);
    }
    floor.clear().await?;
    let mut lines = Vec::new();
    for depth in depths {
        say(&format!("filling a queue with {depth}"));
        lines.push(Line::fill(client, *depth, floor.batch().enqueue).await?);
    }
    for sample in 0..WARM_UP + samples {
        for line in &mut lines {
            line.take(sample >= WARM_UP).await?;
        }
    }
    let mut rows: Vec<DepthRow> = Vec::new();
    for (line, raw_take_p50_us) in lines.into_iter().zip(raws) {
        rows.push(line.finish(raw_take_p50_us, rows.first()).await?);
    }
    Ok(rows)
}

/// One queue, and how long it took to take from it.
struct Line<'a> {
    client: &'a Client,
    queue: Queue,
    depth: usize,
    worker: HolderId,
    claims: Vec<f64>,
    takes: Vec<f64>,
}

impl<'a> Line<'a> {
    async fn fill(client: &'a Client, depth: usize, batch: usize) -> Result<Self, BenchError> {
        let name = QueueName::new(&format!("tidemill-bench-{depth}")).map_err(tidemill::Error::from)?;
        let queue = Queue { name, guarantee: Guarantee::AtLeastOnce };
        client.store().purge(&queue).await?;
        let worker = HolderId::new("tidemill-bench").map_err(tidemill::Error::from)?;
        let line = Self { client, queue, depth, worker, claims: Vec::new(), takes: Vec::new() };
        let mut left = depth;
        while left > 0 {
            let some = left.min(FILL);
            line.add(some, batch).await?;
            left -= some;
        }
        Ok(line)
    }

    async fn add(&self, jobs: usize, batch: usize) -> Result<(), BenchError> {
        let jobs = self.client.jobs((0..jobs).map(Noop::new)).queue(self.queue.name.as_str());
        jobs.batch(batch).enqueue().await?;
        Ok(())
    }

    /// Claims, settles, and adds as many as were taken.
    async fn take(&mut self, counts: bool) -> Result<(), BenchError> {
        let (store, begun) = (self.client.store(), Instant::now());
        let claimed =
            store.claim(ClaimParams::now(&self.queue, &self.worker, tidemill::mins(1), TAKE)).await?;
        let claim = begun.elapsed();
        let finish = |claimed: tidemill::store::Claimed| Settlement {
            lease: claimed.lease,
            change: Change::Finish(None),
        };
        let settlements: Vec<_> = claimed.into_iter().map(finish).collect();
        let begun = Instant::now();
        let verdicts = store.settle(&settlements).await?;
        let take = claim + begun.elapsed();
        let settled = verdicts.iter().filter(|verdict| **verdict == Verdict::Accepted).count();
        if settled < TAKE.min(self.depth) {
            return Err(BenchError::Miscount { expected: TAKE.min(self.depth), seen: settled as u64 });
        }
        if counts {
            self.claims.push(claim.as_secs_f64() * 1e6);
            self.takes.push(take.as_secs_f64() * 1e6);
        }
        self.add(settled, TAKE).await
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

/// The raw loop has one place only, so its depths come one after the other.
async fn raw(floor: &dyn Baseline, depth: usize, samples: usize) -> Result<f64, BenchError> {
    floor.clear().await?;
    let batch: Vec<Bytes> = envelopes(floor.batch().enqueue.max(TAKE))?;
    let mut left = depth;
    while left > 0 {
        let some = left.min(batch.len());
        floor.enqueue(&batch[..some]).await?;
        left -= some;
    }
    let mut times = Vec::with_capacity(samples);
    for sample in 0..WARM_UP + samples {
        let begun = Instant::now();
        let taken = floor.claim(TAKE).await?;
        if sample >= WARM_UP {
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        floor.enqueue(&batch[..taken]).await?;
    }
    Ok(quantile(&mut times, 0.5))
}

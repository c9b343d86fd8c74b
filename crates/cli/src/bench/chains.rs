//! The benchmark of chains: starts them one by one and in batches, and ends their jobs in
//! transactions, next to the same number of empty transactions of the bare driver. On a store
//! without user transactions, jobs end without one, next to a loop that reads and acknowledges as
//! many at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tidemill::baseline::{Baseline, BaselineWork};
use tidemill::transaction::Done;
use tidemill::{Chain, Client, Fail, Guarantee, Job, JobContext, Next, Worker};

use super::quantile;
use super::throughput::envelopes;
use super::workload::{BenchError, BenchQueue, PADDING};

/// Numbers of concurrent callers or handlers.
const CONCURRENCY_LEVELS: [usize; 2] = [10, 100];

/// Chains per batch.
const BATCH_CHAINS: usize = 100;

/// Concurrent batches, as many as a bulk enqueue sends.
const BATCHES_IN_FLIGHT: usize = 3;

/// The result for one kind of work with chains.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct ChainRow {
    /// The work: `start`, `start batched`, `atomic`, `staged`, `process`.
    pub(crate) work: &'static str,
    /// The concurrency.
    pub(crate) concurrency: usize,
    /// The equivalent work of the raw loop.
    pub(crate) raw: &'static str,
    /// Raw operations per second.
    pub(crate) raw_per_s: f64,
    /// Chain operations per second.
    pub(crate) per_s: f64,
    /// `per_s` divided by `raw_per_s`; the median of the rounds.
    pub(crate) ratio: f64,
}

/// The chain of the benchmark.
struct BenchChain;

impl Chain for BenchChain {
    type Output = ();
}

/// The only step. Its payload selects how it ends.
#[derive(Clone, Serialize, Deserialize)]
struct OneStep {
    mode: TransactionMode,
    padding: String,
}

impl Job for OneStep {
    const KIND: &'static str = "one_step";
    type Output = Next<BenchChain>;
    // Longer than a round, and short enough to leave nothing behind for long: the measurement
    // includes keeping results.
    const KEEP_RESULT: Option<std::time::Duration> = Some(tidemill::mins(1));
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TransactionMode {
    /// Without a user transaction.
    Plain,
    /// In one transaction.
    Atomic,
    /// In two transactions, with nothing between.
    Staged,
}

impl TransactionMode {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "process",
            Self::Atomic => "atomic",
            Self::Staged => "staged",
        }
    }

    /// The equivalent work of the raw loop for one job.
    fn raw(self) -> &'static str {
        match self {
            Self::Plain => "reading and acknowledging, as many at a time",
            Self::Atomic => "one transaction: one row",
            Self::Staged => "two transactions: a constant, one row",
        }
    }

    /// The transactions of one job.
    fn transactions(self) -> &'static [BaselineWork] {
        match self {
            Self::Plain => &[],
            Self::Atomic => &[BaselineWork::Write],
            Self::Staged => &[BaselineWork::Read, BaselineWork::Write],
        }
    }
}

impl OneStep {
    fn new(mode: TransactionMode) -> Self {
        Self { mode, padding: PADDING.to_owned() }
    }
}

async fn plain(_: OneStep) -> Result<Next<BenchChain>, Fail> {
    Ok(Next::done(()))
}

async fn in_transactions(job: OneStep, cx: JobContext) -> Result<Done<Next<BenchChain>>, Fail> {
    let staged = job.mode == TransactionMode::Staged;
    if tidemill::sqlite::is_store_of(cx.client()) {
        if staged {
            tidemill::sqlite::transact(&cx, |db| {
                Ok(db.query_row("SELECT 1", [], |row| row.get::<_, i64>(0))?)
            })
            .await?;
        }
        return tidemill::sqlite::done(&cx, |_| Ok(Next::done(())));
    }
    if staged {
        let tx = tidemill::postgres::begin(&cx).await?;
        tx.query_one("SELECT 1", &[]).await?;
        tx.commit().await?;
    }
    Ok(tidemill::postgres::begin(&cx).await?.done(Next::done(())))
}

/// Runs all benchmarks of chains that the store supports.
pub(crate) async fn run(
    client: &Client,
    baseline: &dyn Baseline,
    plan: &super::BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<ChainRow>, BenchError> {
    let queue = BenchQueue { name: "tidemill-bench", guarantee: Guarantee::AtLeastOnce, batch: BATCH_CHAINS };
    queue.purge(client).await?;
    let transacts = baseline.transact(BaselineWork::Read).await?;
    let bench = ChainBench { client, baseline, queue, transacts, plan, report_progress };
    let mut rows = Vec::new();
    for concurrency in CONCURRENCY_LEVELS {
        rows.push(bench.start(concurrency).await?);
    }
    rows.push(bench.start_batched().await?);
    let modes: &[_] = if transacts {
        &[TransactionMode::Atomic, TransactionMode::Staged]
    } else {
        &[TransactionMode::Plain]
    };
    for mode in modes {
        for concurrency in CONCURRENCY_LEVELS {
            rows.push(bench.process(*mode, concurrency).await?);
        }
    }
    baseline.clear().await?;
    Ok(rows)
}

/// What one row of the result describes.
struct ChainWork {
    work: &'static str,
    concurrency: usize,
    raw_work: &'static str,
}

struct ChainBench<'a> {
    client: &'a Client,
    baseline: &'a dyn Baseline,
    queue: BenchQueue,
    transacts: bool,
    plan: &'a super::BenchPlan,
    report_progress: &'a (dyn Fn(&str) + Sync),
}

impl ChainBench<'_> {
    /// Runs the raw loop and Tidemill in turn, for several rounds.
    async fn compare_rounds<R, O>(
        &self,
        ChainWork { work, concurrency, raw_work }: ChainWork,
        raw: impl Fn() -> R,
        measured: impl Fn() -> O,
    ) -> Result<ChainRow, BenchError>
    where
        R: Future<Output = Result<f64, BenchError>>,
        O: Future<Output = Result<f64, BenchError>>,
    {
        let (mut raw_rates, mut measured_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=self.plan.rounds {
            (self.report_progress)(&format!(
                "{work}, {concurrency} at once: round {round} of {}",
                self.plan.rounds
            ));
            self.baseline.clear().await?;
            let (raw, measured) = (raw().await?, measured().await?);
            self.clear().await?;
            (self.report_progress)(&format!(
                "{work}, {concurrency} at once: {measured:.0}/s, {:.2} of the raw loop",
                measured / raw
            ));
            raw_rates.push(raw);
            measured_rates.push(measured);
            ratios.push(measured / raw);
        }
        let (raw_per_s, per_s) = (quantile(&mut raw_rates, 0.5), quantile(&mut measured_rates, 0.5));
        Ok(ChainRow { work, concurrency, raw: raw_work, raw_per_s, per_s, ratio: quantile(&mut ratios, 0.5) })
    }

    async fn clear(&self) -> Result<(), BenchError> {
        self.queue.purge(self.client).await
    }

    async fn start(&self, concurrency: usize) -> Result<ChainRow, BenchError> {
        let one = envelopes(1)?;
        let raw = || self.jobs_rate(concurrency, || async { self.add(&one).await });
        let measured = || {
            self.jobs_rate(concurrency, || async {
                self.client
                    .job(OneStep::new(TransactionMode::Plain))
                    .queue(self.queue.name)
                    .enqueue()
                    .await?;
                Ok(())
            })
        };
        self.compare_rounds(
            ChainWork { work: "start", concurrency, raw_work: "one transaction: one row" },
            raw,
            measured,
        )
        .await
    }

    /// Writes one row in one transaction.
    async fn add(&self, envelopes: &[bytes::Bytes]) -> Result<(), BenchError> {
        if self.transacts {
            self.baseline.transact(BaselineWork::Write).await?;
        } else {
            self.baseline.commit(envelopes).await?;
        }
        Ok(())
    }

    async fn start_batched(&self) -> Result<ChainRow, BenchError> {
        let batch = envelopes(BATCH_CHAINS)?;
        let raw = || async {
            let batches = self.rate_of(BATCHES_IN_FLIGHT, self.plan.jobs.div_ceil(BATCH_CHAINS), || async {
                Ok(self.baseline.commit(&batch).await?)
            });
            Ok(batches.await? * BATCH_CHAINS as f64)
        };
        let measured = || async {
            let jobs = vec![OneStep::new(TransactionMode::Plain); self.plan.jobs];
            let started = Instant::now();
            self.client.jobs(jobs).queue(self.queue.name).batch(BATCH_CHAINS).enqueue().await?;
            Ok(self.plan.jobs as f64 / started.elapsed().as_secs_f64())
        };
        self.compare_rounds(
            ChainWork {
                work: "start batched",
                concurrency: BATCH_CHAINS,
                raw_work: "one transaction: 100 rows",
            },
            raw,
            measured,
        )
        .await
    }

    async fn process(&self, mode: TransactionMode, concurrency: usize) -> Result<ChainRow, BenchError> {
        let raw = || async {
            if self.transacts {
                let job = || async {
                    for transaction in mode.transactions() {
                        self.baseline.transact(*transaction).await?;
                    }
                    Ok(())
                };
                return self.jobs_rate(concurrency, job).await;
            }
            for part in envelopes(self.plan.jobs)?.chunks(BATCH_CHAINS) {
                self.baseline.enqueue(part).await?;
            }
            let (started, mut seen) = (Instant::now(), 0);
            while seen < self.plan.jobs {
                seen += self.baseline.claim(concurrency).await?.max(1);
            }
            Ok(self.plan.jobs as f64 / started.elapsed().as_secs_f64())
        };
        let measured = || async {
            let jobs = vec![OneStep::new(mode); self.plan.jobs];
            self.client.jobs(jobs).queue(self.queue.name).enqueue().await?;
            let worker = Worker::builder(self.client);
            let worker = if mode == TransactionMode::Plain {
                worker.handle(plain)
            } else {
                worker.handle(in_transactions)
            };
            let started = Instant::now();
            let report = worker.queue(self.queue.name, concurrency).drain().await?;
            let took = started.elapsed();
            if report.total.done != self.plan.jobs as u64 {
                return Err(BenchError::Miscount { expected: self.plan.jobs, seen: report.total.done });
            }
            Ok(self.plan.jobs as f64 / took.as_secs_f64())
        };
        self.compare_rounds(ChainWork { work: mode.name(), concurrency, raw_work: mode.raw() }, raw, measured)
            .await
    }

    /// The rate of `work` per second at this concurrency.
    async fn jobs_rate<F>(&self, concurrency: usize, work: impl Fn() -> F) -> Result<f64, BenchError>
    where
        F: Future<Output = Result<(), BenchError>>,
    {
        self.rate_of(concurrency, self.plan.jobs, work).await
    }

    async fn rate_of<F>(
        &self,
        concurrency: usize,
        times: usize,
        work: impl Fn() -> F,
    ) -> Result<f64, BenchError>
    where
        F: Future<Output = Result<(), BenchError>>,
    {
        let (started, taken) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let one = || async {
            while taken.fetch_add(1, Ordering::Relaxed) < times {
                work().await?;
            }
            Ok::<_, BenchError>(())
        };
        try_join_all((0..concurrency).map(|_| one())).await?;
        Ok(times as f64 / started.elapsed().as_secs_f64())
    }
}

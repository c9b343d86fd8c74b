//! Chains: starting them one by one and in batches, and ending their jobs in transactions, next to the same number
//! of empty transactions of the driver alone. Where a store has none of the user's, jobs end by themselves, next to a loop
//! that reads and acknowledges as many at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tidemill::baseline::{Baseline, BaselineWork};
use tidemill::transaction::Done;
use tidemill::{Chain, Client, Fail, Guarantee, Job, JobContext, Next, Worker};

use super::quantile;
use super::rate::envelopes;
use super::work::{BenchError, PADDING, Queue};

/// How many callers, or handlers, are at work at once.
const CONCURRENCIES: [usize; 2] = [10, 100];

/// How many chains a batch starts.
const BATCH: usize = 100;

/// How many batches are under way at once; as many as a bulk enqueue has.
const IN_FLIGHT: usize = 3;

/// What was measured for one kind of work with chains.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct ChainRow {
    /// What is done: `start`, `start batched`, `atomic`, `staged`, `process`.
    pub(crate) work: &'static str,
    /// How many do it at once.
    pub(crate) concurrency: usize,
    /// What the raw loop does instead.
    pub(crate) raw: &'static str,
    /// Times per second with that.
    pub(crate) raw_per_s: f64,
    /// Times per second with chains.
    pub(crate) per_s: f64,
    /// The second by the first; the median of the rounds.
    pub(crate) ratio: f64,
}

/// The one kind of chain.
struct Bench;

impl Chain for Bench {
    type Output = ();
}

/// Its one step. The payload says how it is to be done.
#[derive(Clone, Serialize, Deserialize)]
struct OneStep {
    manner: Manner,
    padding: String,
}

impl Job for OneStep {
    const KIND: &'static str = "one_step";
    type Output = Next<Bench>;
    // Longer than a round, shorter than anybody minds: what is measured includes keeping the result.
    const KEEP_RESULT: Option<std::time::Duration> = Some(tidemill::mins(1));
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Manner {
    /// By itself.
    Plain,
    /// In one transaction.
    Atomic,
    /// In two, with nothing between.
    Staged,
}

impl Manner {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "process",
            Self::Atomic => "atomic",
            Self::Staged => "staged",
        }
    }

    /// What the raw loop does instead of one job.
    fn raw(self) -> &'static str {
        match self {
            Self::Plain => "reading and acknowledging, as many at a time",
            Self::Atomic => "one transaction: one row",
            Self::Staged => "two transactions: a constant, one row",
        }
    }

    /// What the transactions of one job do.
    fn errands(self) -> &'static [BaselineWork] {
        match self {
            Self::Plain => &[],
            Self::Atomic => &[BaselineWork::Write],
            Self::Staged => &[BaselineWork::Read, BaselineWork::Write],
        }
    }
}

impl OneStep {
    fn new(manner: Manner) -> Self {
        Self { manner, padding: PADDING.to_owned() }
    }
}

async fn plain(_: OneStep) -> Result<Next<Bench>, Fail> {
    Ok(Next::done(()))
}

async fn in_transactions(job: OneStep, cx: JobContext) -> Result<Done<Next<Bench>>, Fail> {
    let staged = job.manner == Manner::Staged;
    if tidemill::sqlite::holds(cx.client()) {
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

/// Measures everything a store can do with chains.
pub(crate) async fn run(
    client: &Client,
    floor: &dyn Baseline,
    plan: &super::Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<ChainRow>, BenchError> {
    let queue = Queue { name: "tidemill-bench", delivery: Guarantee::AtLeastOnce, batch: BATCH };
    queue.purge(client).await?;
    let transacts = floor.transact(BaselineWork::Read).await?;
    let bench = Measure { client, floor, queue, transacts, plan, say };
    let mut rows = Vec::new();
    for concurrency in CONCURRENCIES {
        rows.push(bench.start(concurrency).await?);
    }
    rows.push(bench.start_batched().await?);
    let manners: &[_] = if transacts { &[Manner::Atomic, Manner::Staged] } else { &[Manner::Plain] };
    for manner in manners {
        for concurrency in CONCURRENCIES {
            rows.push(bench.process(*manner, concurrency).await?);
        }
    }
    floor.clear().await?;
    Ok(rows)
}

struct Measure<'a> {
    client: &'a Client,
    floor: &'a dyn Baseline,
    queue: Queue,
    transacts: bool,
    plan: &'a super::Plan,
    say: &'a (dyn Fn(&str) + Sync),
}

impl Measure<'_> {
    /// Runs the two in turn, some rounds of each.
    async fn turns<R, O>(
        &self,
        (work, concurrency, instead): (&'static str, usize, &'static str),
        raw: impl Fn() -> R,
        own: impl Fn() -> O,
    ) -> Result<ChainRow, BenchError>
    where
        R: Future<Output = Result<f64, BenchError>>,
        O: Future<Output = Result<f64, BenchError>>,
    {
        let (mut raws, mut owns, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=self.plan.rounds {
            (self.say)(&format!("{work}, {concurrency} at once: round {round} of {}", self.plan.rounds));
            self.floor.clear().await?;
            let (raw, own) = (raw().await?, own().await?);
            self.clear().await?;
            (self.say)(&format!(
                "{work}, {concurrency} at once: {own:.0}/s, {:.2} of the raw loop",
                own / raw
            ));
            raws.push(raw);
            owns.push(own);
            ratios.push(own / raw);
        }
        let (raw_per_s, per_s) = (quantile(&mut raws, 0.5), quantile(&mut owns, 0.5));
        Ok(ChainRow { work, concurrency, raw: instead, raw_per_s, per_s, ratio: quantile(&mut ratios, 0.5) })
    }

    async fn clear(&self) -> Result<(), BenchError> {
        self.queue.purge(self.client).await
    }

    async fn start(&self, concurrency: usize) -> Result<ChainRow, BenchError> {
        let one = envelopes(1)?;
        let raw = || self.timed(concurrency, || async { self.add(&one).await });
        let own = || {
            self.timed(concurrency, || async {
                self.client.job(OneStep::new(Manner::Plain)).queue(self.queue.name).enqueue().await?;
                Ok(())
            })
        };
        self.turns(("start", concurrency, "one transaction: one row"), raw, own).await
    }

    /// One row in one transaction.
    async fn add(&self, envelopes: &[bytes::Bytes]) -> Result<(), BenchError> {
        if self.transacts {
            self.floor.transact(BaselineWork::Write).await?;
        } else {
            self.floor.commit(envelopes).await?;
        }
        Ok(())
    }

    async fn start_batched(&self) -> Result<ChainRow, BenchError> {
        let batch = envelopes(BATCH)?;
        let raw = || async {
            let batches = self.timed_times(IN_FLIGHT, self.plan.jobs.div_ceil(BATCH), || async {
                Ok(self.floor.commit(&batch).await?)
            });
            Ok(batches.await? * BATCH as f64)
        };
        let own = || async {
            let jobs = vec![OneStep::new(Manner::Plain); self.plan.jobs];
            let begun = Instant::now();
            self.client.jobs(jobs).queue(self.queue.name).batch(BATCH).enqueue().await?;
            Ok(self.plan.jobs as f64 / begun.elapsed().as_secs_f64())
        };
        self.turns(("start batched", BATCH, "one transaction: 100 rows"), raw, own).await
    }

    async fn process(&self, manner: Manner, concurrency: usize) -> Result<ChainRow, BenchError> {
        let raw = || async {
            if self.transacts {
                let job = || async {
                    for errand in manner.errands() {
                        self.floor.transact(*errand).await?;
                    }
                    Ok(())
                };
                return self.timed(concurrency, job).await;
            }
            for part in envelopes(self.plan.jobs)?.chunks(BATCH) {
                self.floor.enqueue(part).await?;
            }
            let (begun, mut seen) = (Instant::now(), 0);
            while seen < self.plan.jobs {
                seen += self.floor.claim(concurrency).await?.max(1);
            }
            Ok(self.plan.jobs as f64 / begun.elapsed().as_secs_f64())
        };
        let own = || async {
            let jobs = vec![OneStep::new(manner); self.plan.jobs];
            self.client.jobs(jobs).queue(self.queue.name).enqueue().await?;
            let worker = Worker::builder(self.client);
            let worker =
                if manner == Manner::Plain { worker.handle(plain) } else { worker.handle(in_transactions) };
            let begun = Instant::now();
            let report = worker.queue(self.queue.name, concurrency).drain().await?;
            let took = begun.elapsed();
            if report.total.done != self.plan.jobs as u64 {
                return Err(BenchError::Miscount { expected: self.plan.jobs, seen: report.total.done });
            }
            Ok(self.plan.jobs as f64 / took.as_secs_f64())
        };
        self.turns((manner.name(), concurrency, manner.raw()), raw, own).await
    }

    /// How often `work` is done in a second by so many at once.
    async fn timed<F>(&self, concurrency: usize, work: impl Fn() -> F) -> Result<f64, BenchError>
    where
        F: Future<Output = Result<(), BenchError>>,
    {
        self.timed_times(concurrency, self.plan.jobs, work).await
    }

    async fn timed_times<F>(
        &self,
        concurrency: usize,
        times: usize,
        work: impl Fn() -> F,
    ) -> Result<f64, BenchError>
    where
        F: Future<Output = Result<(), BenchError>>,
    {
        let (begun, taken) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let one = || async {
            while taken.fetch_add(1, Ordering::Relaxed) < times {
                work().await?;
            }
            Ok::<_, BenchError>(())
        };
        try_join_all((0..concurrency).map(|_| one())).await?;
        Ok(times as f64 / begun.elapsed().as_secs_f64())
    }
}

//! The benchmark of workflows: runs of three activities, sequentially and concurrently, next to the
//! raw loop with as many envelopes.
//!
//! A run of three activities enqueues eight items (itself, three activities and four tasks) and
//! takes them off again. So the raw loop processes eight envelopes for each run: one by one for
//! sequential runs, in its own batches for concurrent runs.

use std::time::{Duration, Instant};

use futures_util::stream::{StreamExt, TryStreamExt};
use tidemill::baseline::Baseline;
use tidemill::store::runs::PruneRunsParams;
use tidemill::workflow::{Activity, Ctx, RunHandle, RunWorkflows, StartWorkflows, Workflow, WorkflowError};
use tidemill::{Client, Fail, Worker};
use tokio::sync::oneshot;

use super::throughput::{self, envelopes};
use super::workload::BenchError;
use super::{BenchPlan, quantile};

const BENCH: Workflow<u64, u64> = Workflow::new("tidemill-bench");
const NOOP: Activity<u64, u64> = Activity::new("tidemill-bench-nothing").queue("tidemill-bench");

/// Envelopes per run: itself, three activities, and a task for each of them.
const ENVELOPES_PER_RUN: usize = 8;

/// Concurrent runs under load.
const CONCURRENT_RUNS: usize = 500;

/// Maximum number of sequential runs per round.
const MAX_SEQUENTIAL_RUNS: usize = 200;

/// Retention of an ended run: until its result has been read.
const RUN_RETENTION: Duration = Duration::from_secs(2);

/// The result for runs of three activities.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct RunRow {
    /// The number of concurrent runs.
    pub(crate) at_once: usize,
    /// Runs per second if a run were eight envelopes through the raw loop.
    pub(crate) raw_per_s: f64,
    /// Runs per second.
    pub(crate) per_s: f64,
    /// `per_s` divided by `raw_per_s`; the median of the rounds.
    pub(crate) ratio: f64,
    /// Round trips to the store per run.
    pub(crate) trips_per_run: f64,
    /// Median time from start to result of sequential runs.
    pub(crate) p50_us: Option<f64>,
}

async fn run_three_activities(ctx: Ctx, mut number: u64) -> Result<u64, WorkflowError> {
    for _ in 0..3 {
        number = ctx.activity(&NOOP, number).await?;
    }
    Ok(number)
}

async fn noop(number: u64) -> Result<u64, Fail> {
    Ok(number + 1)
}

/// Measures sequential runs, then concurrent runs.
pub(crate) async fn run(
    client: &Client,
    baseline: &dyn Baseline,
    plan: &BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<RunRow>, BenchError> {
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::builder(client)
        .workflow(&BENCH, run_three_activities)
        .activity(&NOOP, noop)
        .workflow_concurrency(CONCURRENT_RUNS)
        .queue("tidemill-bench", CONCURRENT_RUNS);
    let worker = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let rows = measure(client, baseline, plan, report_progress).await;
    let _ = stop.send(());
    if let Ok(ended) = worker.await {
        ended?;
    }
    remove_runs(client).await?;
    rows
}

async fn measure(
    client: &Client,
    baseline: &dyn Baseline,
    plan: &BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<RunRow>, BenchError> {
    let sequential = plan.jobs.min(MAX_SEQUENTIAL_RUNS);
    let (mut single, mut many) = (Rounds::default(), Rounds::default());
    for round in 1..=plan.rounds {
        baseline.clear().await?;
        report_progress(&format!("workflows, one at a time: round {round} of {}", plan.rounds));
        single.add(raw_sequential(baseline, sequential).await?, run_sequentially(client, sequential).await?);
        baseline.clear().await?;
        report_progress(&format!("workflows, {CONCURRENT_RUNS} at once: round {round} of {}", plan.rounds));
        let raw = throughput::measure_raw(baseline, plan.jobs * ENVELOPES_PER_RUN).await?
            / ENVELOPES_PER_RUN as f64;
        many.add(raw, run_concurrently(client, plan.jobs).await?);
        remove_runs(client).await?;
    }
    baseline.clear().await?;
    Ok(vec![single.row(1), many.row(CONCURRENT_RUNS)])
}

/// One measurement of Tidemill.
struct RunMeasurement {
    per_s: f64,
    trips_per_run: f64,
    p50_us: Option<f64>,
}

/// The measurements of several rounds.
#[derive(Default)]
struct Rounds {
    raw: Vec<f64>,
    measured: Vec<f64>,
    ratios: Vec<f64>,
    trips: Vec<f64>,
    p50: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, raw: f64, measured: RunMeasurement) {
        self.raw.push(raw);
        self.measured.push(measured.per_s);
        self.ratios.push(measured.per_s / raw);
        self.trips.push(measured.trips_per_run);
        self.p50.extend(measured.p50_us);
    }

    fn row(mut self, at_once: usize) -> RunRow {
        RunRow {
            at_once,
            raw_per_s: quantile(&mut self.raw, 0.5),
            per_s: quantile(&mut self.measured, 0.5),
            ratio: quantile(&mut self.ratios, 0.5),
            trips_per_run: quantile(&mut self.trips, 0.5),
            p50_us: (!self.p50.is_empty()).then(|| quantile(&mut self.p50, 0.5)),
        }
    }
}

async fn raw_sequential(baseline: &dyn Baseline, runs: usize) -> Result<f64, BenchError> {
    let one = envelopes(1)?;
    let started = Instant::now();
    for _ in 0..runs * ENVELOPES_PER_RUN {
        baseline.enqueue(&one).await?;
        baseline.claim(1).await?;
    }
    Ok(runs as f64 / started.elapsed().as_secs_f64())
}

async fn run_sequentially(client: &Client, runs: usize) -> Result<RunMeasurement, BenchError> {
    let (started, before) = (Instant::now(), client.store().commands());
    let mut samples = Vec::with_capacity(runs);
    for _ in 0..runs {
        let started = Instant::now();
        result(&start(client).await?).await?;
        samples.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let measured = measurement(client, runs, before, started.elapsed());
    Ok(RunMeasurement { p50_us: Some(quantile(&mut samples, 0.5)), ..measured })
}

async fn run_concurrently(client: &Client, runs: usize) -> Result<RunMeasurement, BenchError> {
    let (started, before) = (Instant::now(), client.store().commands());
    // One future per run: a start that is not polled while results are awaited would keep its
    // connection.
    let all = futures_util::stream::iter(0..runs).map(|_| async { result(&start(client).await?).await });
    all.buffer_unordered(CONCURRENT_RUNS).try_collect::<Vec<_>>().await?;
    Ok(measurement(client, runs, before, started.elapsed()))
}

fn measurement(client: &Client, runs: usize, before: u64, took: Duration) -> RunMeasurement {
    let trips = client.store().commands().saturating_sub(before);
    RunMeasurement {
        per_s: runs as f64 / took.as_secs_f64(),
        trips_per_run: trips as f64 / runs as f64,
        p50_us: None,
    }
}

async fn start(client: &Client) -> Result<RunHandle<u64>, BenchError> {
    Ok(client.workflow(&BENCH, 0).keep(RUN_RETENTION).start().await?)
}

async fn result(handle: &RunHandle<u64>) -> Result<(), BenchError> {
    match handle.wait().await? {
        3 => Ok(()),
        seen => Err(BenchError::Miscount { expected: 3, seen }),
    }
}

/// Removes the ended runs of the benchmark. The runs of others keep their own retention.
async fn remove_runs(client: &Client) -> Result<(), BenchError> {
    tokio::time::sleep(RUN_RETENTION).await;
    let over = PruneRunsParams { max_kept: u64::MAX, min_age: Duration::ZERO };
    while client.store().prune_runs(over).await? > 0 {}
    Ok(())
}

//! Workflows: runs of three activities one after another, one run at a time and many at once, next to the raw loop with
//! as many envelopes.
//!
//! A run of three activities adds eight things (it, its three activities and four tasks) and takes them off again, so the
//! raw loop is given eight envelopes for each run: one by one where runs are done one at a time, in its own batches where
//! they are done at once.

use std::time::{Duration, Instant};

use futures_util::stream::{StreamExt, TryStreamExt};
use tidemill::baseline::Baseline;
use tidemill::store::runs::PruneRunsParams;
use tidemill::workflow::{Activity, Ctx, RunHandle, RunWorkflows, StartWorkflows, Workflow, WorkflowError};
use tidemill::{Client, Fail, Worker};
use tokio::sync::oneshot;

use super::rate::{self, envelopes};
use super::work::BenchError;
use super::{Plan, quantile};

const BENCH: Workflow<u64, u64> = Workflow::new("tidemill-bench");
const NOTHING: Activity<u64, u64> = Activity::new("tidemill-bench-nothing").queue("tidemill-bench");

/// What a run adds and takes off: itself and three activities, and a task for each of them.
const ENVELOPES: usize = 8;

/// How many runs are under way at once, under load.
const AT_ONCE: usize = 500;

/// One run at a time says what it says after this many.
const FEW: usize = 200;

/// How long a run is kept after its end: until its result has been seen.
const KEPT: Duration = Duration::from_secs(2);

/// What was measured for runs of three activities.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct RunRow {
    /// How many runs are under way at once.
    pub(crate) at_once: usize,
    /// Runs per second, if a run were eight envelopes through the raw loop.
    pub(crate) raw_per_s: f64,
    /// Runs per second.
    pub(crate) per_s: f64,
    /// The second by the first; the median of the rounds.
    pub(crate) ratio: f64,
    /// Round trips to the store for a run.
    pub(crate) trips_per_run: f64,
    /// From start to result, for one run at a time.
    pub(crate) p50_us: Option<f64>,
}

async fn three(ctx: Ctx, mut number: u64) -> Result<u64, WorkflowError> {
    for _ in 0..3 {
        number = ctx.activity(&NOTHING, number).await?;
    }
    Ok(number)
}

async fn nothing(number: u64) -> Result<u64, Fail> {
    Ok(number + 1)
}

/// Measures runs one at a time, then many at once.
pub(crate) async fn run(
    client: &Client,
    floor: &dyn Baseline,
    plan: &Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<RunRow>, BenchError> {
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::builder(client)
        .workflow(&BENCH, three)
        .activity(&NOTHING, nothing)
        .workflow_concurrency(AT_ONCE)
        .queue("tidemill-bench", AT_ONCE);
    let worker = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let rows = measure(client, floor, plan, say).await;
    let _ = stop.send(());
    if let Ok(ended) = worker.await {
        ended?;
    }
    remove(client).await?;
    rows
}

async fn measure(
    client: &Client,
    floor: &dyn Baseline,
    plan: &Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<RunRow>, BenchError> {
    let few = plan.jobs.min(FEW);
    let (mut single, mut many) = (Rounds::default(), Rounds::default());
    for round in 1..=plan.rounds {
        floor.clear().await?;
        say(&format!("workflows, one at a time: round {round} of {}", plan.rounds));
        single.add(raw_singly(floor, few).await?, one_by_one(client, few).await?);
        floor.clear().await?;
        say(&format!("workflows, {AT_ONCE} at once: round {round} of {}", plan.rounds));
        let raw = rate::raw(floor, plan.jobs * ENVELOPES).await? / ENVELOPES as f64;
        many.add(raw, at_once(client, plan.jobs).await?);
        remove(client).await?;
    }
    floor.clear().await?;
    Ok(vec![single.row(1), many.row(AT_ONCE)])
}

/// One measurement of Tidemill.
struct Own {
    per_s: f64,
    trips_per_run: f64,
    p50_us: Option<f64>,
}

/// What several rounds gave.
#[derive(Default)]
struct Rounds {
    raw: Vec<f64>,
    own: Vec<f64>,
    ratios: Vec<f64>,
    trips: Vec<f64>,
    p50: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, raw: f64, own: Own) {
        self.raw.push(raw);
        self.own.push(own.per_s);
        self.ratios.push(own.per_s / raw);
        self.trips.push(own.trips_per_run);
        self.p50.extend(own.p50_us);
    }

    fn row(mut self, at_once: usize) -> RunRow {
        RunRow {
            at_once,
            raw_per_s: quantile(&mut self.raw, 0.5),
            per_s: quantile(&mut self.own, 0.5),
            ratio: quantile(&mut self.ratios, 0.5),
            trips_per_run: quantile(&mut self.trips, 0.5),
            p50_us: (!self.p50.is_empty()).then(|| quantile(&mut self.p50, 0.5)),
        }
    }
}

async fn raw_singly(floor: &dyn Baseline, runs: usize) -> Result<f64, BenchError> {
    let one = envelopes(1)?;
    let begun = Instant::now();
    for _ in 0..runs * ENVELOPES {
        floor.enqueue(&one).await?;
        floor.claim(1).await?;
    }
    Ok(runs as f64 / begun.elapsed().as_secs_f64())
}

async fn one_by_one(client: &Client, runs: usize) -> Result<Own, BenchError> {
    let (begun, before) = (Instant::now(), client.store().commands());
    let mut samples = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        result(&start(client).await?).await?;
        samples.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let own = own(client, runs, before, begun.elapsed());
    Ok(Own { p50_us: Some(quantile(&mut samples, 0.5)), ..own })
}

async fn at_once(client: &Client, runs: usize) -> Result<Own, BenchError> {
    let (begun, before) = (Instant::now(), client.store().commands());
    // One future for each run: a start that nobody polls because results are awaited would keep its connection.
    let all = futures_util::stream::iter(0..runs).map(|_| async { result(&start(client).await?).await });
    all.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    Ok(own(client, runs, before, begun.elapsed()))
}

fn own(client: &Client, runs: usize, before: u64, took: Duration) -> Own {
    let trips = client.store().commands().saturating_sub(before);
    Own { per_s: runs as f64 / took.as_secs_f64(), trips_per_run: trips as f64 / runs as f64, p50_us: None }
}

async fn start(client: &Client) -> Result<RunHandle<u64>, BenchError> {
    Ok(client.workflow(&BENCH, 0).keep(KEPT).start().await?)
}

async fn result(handle: &RunHandle<u64>) -> Result<(), BenchError> {
    match handle.result().await? {
        3 => Ok(()),
        seen => Err(BenchError::Miscount { expected: 3, seen }),
    }
}

/// Removes the runs that were kept for a moment; those of others have their own time.
async fn remove(client: &Client) -> Result<(), BenchError> {
    tokio::time::sleep(KEPT).await;
    let over = PruneRunsParams { max_kept: u64::MAX, min_age: Duration::ZERO };
    while client.store().prune_runs(over).await? > 0 {}
    Ok(())
}

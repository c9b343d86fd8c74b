//! Benchmarks of this store with this build, next to a loop over the bare driver.
//!
//! Both run in one process and take turns, because machines are shared and noisy. Only the ratio of
//! two rates that were measured side by side shows the cost of Tidemill.

mod chains;
mod depth;
mod latency;
mod throughput;
mod workflows;
mod workload;

use tidemill::Client;
use tidemill::baseline::Baseline;

pub(crate) use chains::ChainRow;
pub(crate) use depth::DepthRow;
pub(crate) use workflows::RunRow;
pub(crate) use workload::BenchError;

/// The parameters of a benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchPlan {
    /// Jobs per round.
    pub(crate) jobs: usize,
    /// Rounds, each of the raw loop and of Tidemill in turn.
    pub(crate) rounds: usize,
    /// Jobs whose latency from enqueue to start is measured.
    pub(crate) latency_samples: usize,
}

/// The result for one kind of work.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct JobBenchRow {
    /// `stream`, `list`, `table`.
    pub(crate) work: &'static str,
    /// Jobs per second through the raw loop, enqueue to acknowledge.
    pub(crate) raw_per_s: f64,
    /// Jobs per second through Tidemill, enqueue to settle.
    pub(crate) per_s: f64,
    /// `per_s` divided by `raw_per_s`; the median of the rounds.
    pub(crate) ratio: f64,
    /// Store commands per job.
    pub(crate) commands_per_job: f64,
    /// Median latency from enqueue to the start of the handler, at 100 jobs per second.
    pub(crate) latency_p50_us: f64,
    /// The 99th percentile of that latency.
    pub(crate) latency_p99_us: f64,
    /// Median latency from enqueue to the return of a raw blocking read; `None` on a store without
    /// one.
    pub(crate) raw_latency_p50_us: Option<f64>,
}

/// Runs the benchmark of jobs for every baseline of the store.
pub(crate) async fn run(
    client: &Client,
    baselines: &[Box<dyn Baseline>],
    plan: &BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<JobBenchRow>, BenchError> {
    let mut rows = Vec::new();
    for baseline in baselines {
        rows.push(measure(client, &**baseline, plan, report_progress).await?);
        baseline.clear().await?;
    }
    Ok(rows)
}

/// Purges the queues of a measurement and the data of the raw loops.
pub(crate) async fn clear(client: &Client, baselines: &[Box<dyn Baseline>]) -> Result<(), BenchError> {
    for baseline in baselines {
        workload::BenchQueue::new(&**baseline).purge(client).await?;
        baseline.clear().await?;
    }
    Ok(())
}

/// Runs the benchmark of chains.
pub(crate) async fn run_chains(
    client: &Client,
    baselines: &[Box<dyn Baseline>],
    plan: &BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<ChainRow>, BenchError> {
    match at_least_once_baseline(baselines) {
        Some(baseline) => chains::run(client, baseline, plan, report_progress).await,
        None => Ok(Vec::new()),
    }
}

/// Runs the benchmark of workflows.
pub(crate) async fn run_workflows(
    client: &Client,
    baselines: &[Box<dyn Baseline>],
    plan: &BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<RunRow>, BenchError> {
    match at_least_once_baseline(baselines) {
        Some(baseline) => workflows::run(client, baseline, plan, report_progress).await,
        None => Ok(Vec::new()),
    }
}

/// Runs the benchmark of queue depths.
pub(crate) async fn run_depths(
    client: &Client,
    baselines: &[Box<dyn Baseline>],
    depths: &[usize],
    plan: &BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<DepthRow>, BenchError> {
    match at_least_once_baseline(baselines) {
        Some(baseline) => depth::run(client, baseline, depths, plan.latency_samples, report_progress).await,
        None => Ok(Vec::new()),
    }
}

/// The baseline with the same guarantee as durable work.
fn at_least_once_baseline(baselines: &[Box<dyn Baseline>]) -> Option<&dyn Baseline> {
    baselines
        .iter()
        .map(|baseline| &**baseline)
        .find(|baseline| baseline.guarantee() == tidemill::Guarantee::AtLeastOnce)
}

async fn measure(
    client: &Client,
    baseline: &dyn Baseline,
    plan: &BenchPlan,
    report_progress: &(dyn Fn(&str) + Sync),
) -> Result<JobBenchRow, BenchError> {
    let queue = workload::BenchQueue::new(baseline);
    queue.purge(client).await?;
    let (mut raw, mut own, mut ratios, mut commands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        report_progress(&format!("{}: round {round} of {}, raw loop", baseline.work(), plan.rounds));
        let raw_rate = throughput::measure_raw(baseline, plan.jobs).await?;
        report_progress(&format!(
            "{}: round {round} of {}, tidemill (raw {raw_rate:.0}/s)",
            baseline.work(),
            plan.rounds
        ));
        let own_rate = throughput::measure_tidemill(client, &queue, plan.jobs).await?;
        report_progress(&format!(
            "{}: round {round}: {:.0}/s, {:.2} of the raw loop",
            baseline.work(),
            own_rate.per_s,
            own_rate.per_s / raw_rate
        ));
        raw.push(raw_rate);
        own.push(own_rate.per_s);
        ratios.push(own_rate.per_s / raw_rate);
        commands.push(own_rate.commands_per_job);
    }
    report_progress(&format!("{}: latency at 100 jobs a second", baseline.work()));
    let raw_latency = latency::measure_raw(baseline, plan.latency_samples).await?;
    let latency = latency::measure_tidemill(client, &queue, plan.latency_samples).await?;
    Ok(JobBenchRow {
        work: baseline.work(),
        raw_per_s: quantile(&mut raw, 0.5),
        per_s: quantile(&mut own, 0.5),
        ratio: quantile(&mut ratios, 0.5),
        commands_per_job: quantile(&mut commands, 0.5),
        latency_p50_us: quantile(&mut latency.clone(), 0.5),
        latency_p99_us: quantile(&mut latency.clone(), 0.99),
        raw_latency_p50_us: raw_latency.map(|mut samples| quantile(&mut samples, 0.5)),
    })
}

/// The quantile `share` of the samples.
fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a short slice")]
    let index = ((samples.len().saturating_sub(1)) as f64 * share).round() as usize;
    samples.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_samples_are_samples() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&mut [1.0, 2.0], 0.99), 2.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }

    #[tokio::test]
    async fn measures_an_embedded_store_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("bench.db").display());
        let plan = BenchPlan { jobs: 500, rounds: 1, latency_samples: 5 };
        let client = tidemill::connect(&url).await.unwrap();
        let baselines = tidemill::ClientBuilder::new(&url).baselines().await.unwrap();
        let rows = run(&client, &baselines, &plan, &|_| {}).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert!(rows[0].per_s > 0.0 && rows[0].raw_per_s > 0.0 && rows[0].latency_p50_us > 0.0);
        let baselines = tidemill::ClientBuilder::new(&url).baselines().await.unwrap();
        let rows = run_chains(&client, &baselines, &BenchPlan { jobs: 200, ..plan }, &|_| {}).await.unwrap();
        assert_eq!(rows.len(), 7);
        assert!(rows.iter().all(|row| row.per_s > 0.0 && row.raw_per_s > 0.0));
        let baselines = tidemill::ClientBuilder::new(&url).baselines().await.unwrap();
        let rows = run_depths(&client, &baselines, &[150, 1_000], &plan, &|_| {}).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.depth).collect::<Vec<_>>(), [150, 1_000]);
        assert!(rows.iter().all(|row| row.claim_p50_us > 0.0 && row.raw_take_p50_us > 0.0));
        let baselines = tidemill::ClientBuilder::new(&url).baselines().await.unwrap();
        let rows =
            run_workflows(&client, &baselines, &BenchPlan { jobs: 50, ..plan }, &|_| {}).await.unwrap();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.per_s > 0.0 && row.trips_per_run > 0.0));
        let runs =
            client.store().list_runs(tidemill::workflow::ListRunsParams { limit: 9, ..Default::default() });
        assert!(runs.await.unwrap().items.is_empty());
        for queue in client.queues().await.unwrap() {
            assert_eq!((queue.ready, queue.scheduled, queue.running, queue.dead), (0, 0, 0, 0));
        }
    }
}

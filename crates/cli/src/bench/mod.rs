//! Measuring this store with this build, next to the raw store loop.
//!
//! Both run in one process and take turns, because machines are shared and noisy: a number alone says little,
//! the ratio of two that were measured side by side says what Tidemill costs.

mod chains;
mod depth;
mod latency;
mod rate;
mod work;
mod workflows;

use tidemill::Client;
use tidemill::baseline::Baseline;

pub(crate) use chains::ChainRow;
pub(crate) use depth::DepthRow;
pub(crate) use work::BenchError;
pub(crate) use workflows::RunRow;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Jobs per round.
    pub(crate) jobs: usize,
    /// Rounds, each of the raw loop and of Tidemill in turn.
    pub(crate) rounds: usize,
    /// Jobs whose way from enqueue to start is timed.
    pub(crate) latency_samples: usize,
}

/// What was measured for one kind of work.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Row {
    /// `stream`, `list`, `table`.
    pub(crate) work: &'static str,
    /// Jobs per second through the raw loop, enqueue to acknowledge.
    pub(crate) raw_per_s: f64,
    /// Jobs per second through Tidemill, enqueue to settle.
    pub(crate) per_s: f64,
    /// The second by the first; the median of the rounds.
    pub(crate) ratio: f64,
    /// Commands that Tidemill sent to the store for a job.
    pub(crate) commands_per_job: f64,
    /// From enqueue to the start of the handler, at 100 jobs a second.
    pub(crate) latency_p50_us: f64,
    /// The same for the slowest of a hundred.
    pub(crate) latency_p99_us: f64,
    /// From enqueue to the return of a raw blocking read; none where the store has no such thing.
    pub(crate) raw_latency_p50_us: Option<f64>,
}

/// Measures every kind of work that a store has.
pub(crate) async fn run(
    client: &Client,
    floors: &[Box<dyn Baseline>],
    plan: &Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for floor in floors {
        rows.push(measure(client, &**floor, plan, say).await?);
        floor.clear().await?;
    }
    Ok(rows)
}

/// Removes what waits in the queues of a measurement, and what the raw loops made.
pub(crate) async fn clear(client: &Client, floors: &[Box<dyn Baseline>]) -> Result<(), BenchError> {
    for floor in floors {
        work::Queue::new(&**floor).purge(client).await?;
        floor.clear().await?;
    }
    Ok(())
}

/// Measures what a store can do with chains.
pub(crate) async fn run_chains(
    client: &Client,
    floors: &[Box<dyn Baseline>],
    plan: &Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<ChainRow>, BenchError> {
    match loses_nothing(floors) {
        Some(floor) => chains::run(client, floor, plan, say).await,
        None => Ok(Vec::new()),
    }
}

/// Measures runs of workflows.
pub(crate) async fn run_workflows(
    client: &Client,
    floors: &[Box<dyn Baseline>],
    plan: &Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<RunRow>, BenchError> {
    match loses_nothing(floors) {
        Some(floor) => workflows::run(client, floor, plan, say).await,
        None => Ok(Vec::new()),
    }
}

/// Measures how long claims take in queues of these depths.
pub(crate) async fn run_depths(
    client: &Client,
    floors: &[Box<dyn Baseline>],
    depths: &[usize],
    plan: &Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<DepthRow>, BenchError> {
    match loses_nothing(floors) {
        Some(floor) => depth::run(client, floor, (depths, plan.latency_samples), say).await,
        None => Ok(Vec::new()),
    }
}

/// What must not get lost is compared with the loop that loses nothing.
fn loses_nothing(floors: &[Box<dyn Baseline>]) -> Option<&dyn Baseline> {
    floors.iter().map(|floor| &**floor).find(|floor| floor.guarantee() == tidemill::Guarantee::AtLeastOnce)
}

async fn measure(
    client: &Client,
    floor: &dyn Baseline,
    plan: &Plan,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Row, BenchError> {
    let queue = work::Queue::new(floor);
    queue.purge(client).await?;
    let (mut raw, mut own, mut ratios, mut commands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        say(&format!("{}: round {round} of {}, raw loop", floor.work(), plan.rounds));
        let raw_rate = rate::raw(floor, plan.jobs).await?;
        say(&format!("{}: round {round} of {}, tidemill (raw {raw_rate:.0}/s)", floor.work(), plan.rounds));
        let own_rate = rate::own(client, &queue, plan.jobs).await?;
        say(&format!(
            "{}: round {round}: {:.0}/s, {:.2} of the raw loop",
            floor.work(),
            own_rate.per_s,
            own_rate.per_s / raw_rate
        ));
        raw.push(raw_rate);
        own.push(own_rate.per_s);
        ratios.push(own_rate.per_s / raw_rate);
        commands.push(own_rate.commands_per_job);
    }
    say(&format!("{}: latency at 100 jobs a second", floor.work()));
    let raw_latency = latency::raw(floor, plan.latency_samples).await?;
    let latency = latency::own(client, &queue, plan.latency_samples).await?;
    Ok(Row {
        work: floor.work(),
        raw_per_s: quantile(&mut raw, 0.5),
        per_s: quantile(&mut own, 0.5),
        ratio: quantile(&mut ratios, 0.5),
        commands_per_job: quantile(&mut commands, 0.5),
        latency_p50_us: quantile(&mut latency.clone(), 0.5),
        latency_p99_us: quantile(&mut latency.clone(), 0.99),
        raw_latency_p50_us: raw_latency.map(|mut samples| quantile(&mut samples, 0.5)),
    })
}

/// The value below which this share of the samples lies.
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
        let plan = Plan { jobs: 500, rounds: 1, latency_samples: 5 };
        let client = tidemill::connect(&url).await.unwrap();
        let floors = tidemill::connector(&url).unwrap().floors().await.unwrap();
        let rows = run(&client, &floors, &plan, &|_| {}).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert!(rows[0].per_s > 0.0 && rows[0].raw_per_s > 0.0 && rows[0].latency_p50_us > 0.0);
        let floors = tidemill::connector(&url).unwrap().floors().await.unwrap();
        let rows = run_chains(&client, &floors, &Plan { jobs: 200, ..plan }, &|_| {}).await.unwrap();
        assert_eq!(rows.len(), 7);
        assert!(rows.iter().all(|row| row.per_s > 0.0 && row.raw_per_s > 0.0));
        let floors = tidemill::connector(&url).unwrap().floors().await.unwrap();
        let rows = run_depths(&client, &floors, &[150, 1_000], &plan, &|_| {}).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.depth).collect::<Vec<_>>(), [150, 1_000]);
        assert!(rows.iter().all(|row| row.claim_p50_us > 0.0 && row.raw_take_p50_us > 0.0));
        let floors = tidemill::connector(&url).unwrap().floors().await.unwrap();
        let rows = run_workflows(&client, &floors, &Plan { jobs: 50, ..plan }, &|_| {}).await.unwrap();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.per_s > 0.0 && row.trips_per_run > 0.0));
        let runs =
            client.store().list_runs(tidemill::workflow::ListRunsParams { limit: 9, ..Default::default() });
        assert!(runs.await.unwrap().items.is_empty());
        for queue in client.store().list_queues().await.unwrap() {
            assert_eq!((queue.ready, queue.scheduled, queue.running, queue.dead), (0, 0, 0, 0));
        }
    }
}

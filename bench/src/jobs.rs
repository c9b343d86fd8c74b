//! Benchmark of the CPU time of jobs: enqueued singly and in bulk, and run. To compare two builds,
//! run both in turn; the CPU time of a process is steadier than elapsed time.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures_util::stream::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tidemill::{Client, Fail, Guarantee, Job, Worker};

const QUEUE: &str = "tidemill-bench";

/// Concurrency of the worker, as in `tidemill bench`.
const CONCURRENCY: usize = 1_024;

#[derive(Serialize, Deserialize)]
struct Noop {
    n: usize,
    padding: String,
}

impl Job for Noop {
    const KIND: &'static str = "noop";
    type Output = ();
}

impl Noop {
    fn new(n: usize) -> Self {
        Self { n, padding: "0123456789".repeat(10) }
    }
}

async fn noop(job: Noop) -> Result<(), Fail> {
    std::hint::black_box(job.n);
    Ok(())
}

/// Runs the benchmark.
pub(crate) async fn run(args: &super::JobsBench) -> Result<()> {
    let client = tidemill::connect(&args.store).await?;
    let guarantee = if args.at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce };
    // Opens connections and prepares statements.
    enqueue_single(&client, guarantee, 100, 10).await?;
    run_jobs(&client, guarantee, 100).await?;
    for at_once in [1, 16, 100] {
        let jobs = args.single;
        measure(
            &format!("enqueue one by one, {at_once} at once"),
            jobs,
            enqueue_single(&client, guarantee, jobs, at_once),
        )
        .await?;
        measure("work", jobs, run_jobs(&client, guarantee, jobs)).await?;
    }
    measure("enqueue in bulk", args.bulk, enqueue_bulk(&client, guarantee, args.bulk)).await?;
    measure("work", args.bulk, run_jobs(&client, guarantee, args.bulk)).await
}

async fn enqueue_single(client: &Client, guarantee: Guarantee, jobs: usize, at_once: usize) -> Result<()> {
    let one = |n| {
        let enqueue = client.job(Noop::new(n)).queue(QUEUE).guarantee(guarantee).enqueue();
        async { enqueue.await.map(drop) }
    };
    futures_util::stream::iter(0..jobs).map(one).buffer_unordered(at_once).try_collect::<Vec<_>>().await?;
    Ok(())
}

async fn enqueue_bulk(client: &Client, guarantee: Guarantee, jobs: usize) -> Result<()> {
    client.jobs((0..jobs).map(Noop::new)).queue(QUEUE).guarantee(guarantee).enqueue().await?;
    Ok(())
}

async fn run_jobs(client: &Client, guarantee: Guarantee, jobs: usize) -> Result<()> {
    let worker = Worker::builder(client).handle(noop);
    let worker = match guarantee {
        Guarantee::AtLeastOnce => worker.queue(QUEUE, CONCURRENCY),
        Guarantee::AtMostOnce => worker.at_most_once(QUEUE, CONCURRENCY),
    };
    let report = worker.drain().await?;
    ensure!(report.total.done == jobs as u64, "{} of {jobs} jobs were done", report.total.done);
    Ok(())
}

/// Measures `work` and prints the cost of a job.
async fn measure(what: &str, jobs: usize, work: impl Future<Output = Result<()>>) -> Result<()> {
    let (started, before) = (Instant::now(), cpu_time()?);
    work.await?;
    let (took, spent) = (started.elapsed().as_secs_f64(), cpu_time()? - before);
    let each = |seconds: f64| seconds / jobs as f64 * 1e6;
    println!(
        "{what}: {:.0} jobs/s, {:.2} us each, {:.2} us of this process",
        jobs as f64 / took,
        each(took),
        each(spent)
    );
    Ok(())
}

/// The CPU time of this process, in seconds.
fn cpu_time() -> Result<f64> {
    let mut nanos = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += stat.split(' ').next().context("schedstat is empty")?.parse::<f64>()?;
    }
    Ok(nanos / 1e9)
}

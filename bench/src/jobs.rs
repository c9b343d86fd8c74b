//! What jobs cost this process: enqueued one by one and in bulk, and worked off. Two builds are compared by running
//! this of both in turn; the time that a process was given by the kernel is steadier than what a clock shows.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures_util::stream::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tidemill::{Client, Fail, Guarantee, Job, Worker};

const QUEUE: &str = "tidemill-bench";

/// Jobs that run at once, as in `tidemill bench`.
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

/// Measures it.
pub(crate) async fn run(wanted: &super::Jobs) -> Result<()> {
    let client = tidemill::connect(&wanted.store).await?;
    let delivery = if wanted.at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce };
    // Connections are opened and statements are prepared.
    single(&client, delivery, (100, 10)).await?;
    work(&client, delivery, 100).await?;
    for at_once in [1, 16, 100] {
        let jobs = wanted.single;
        measure(
            &format!("enqueue one by one, {at_once} at once"),
            jobs,
            single(&client, delivery, (jobs, at_once)),
        )
        .await?;
        measure("work", jobs, work(&client, delivery, jobs)).await?;
    }
    measure("enqueue in bulk", wanted.bulk, bulk(&client, delivery, wanted.bulk)).await?;
    measure("work", wanted.bulk, work(&client, delivery, wanted.bulk)).await
}

async fn single(client: &Client, delivery: Guarantee, (jobs, at_once): (usize, usize)) -> Result<()> {
    let one = |n| {
        let enqueue = client.job(Noop::new(n)).queue(QUEUE).guarantee(delivery).enqueue();
        async { enqueue.await.map(drop) }
    };
    futures_util::stream::iter(0..jobs).map(one).buffer_unordered(at_once).try_collect::<Vec<_>>().await?;
    Ok(())
}

async fn bulk(client: &Client, delivery: Guarantee, jobs: usize) -> Result<()> {
    client.jobs((0..jobs).map(Noop::new)).queue(QUEUE).guarantee(delivery).enqueue().await?;
    Ok(())
}

async fn work(client: &Client, delivery: Guarantee, jobs: usize) -> Result<()> {
    let worker = Worker::builder(client).handle(noop);
    let worker = match delivery {
        Guarantee::AtLeastOnce => worker.queue(QUEUE, CONCURRENCY),
        Guarantee::AtMostOnce => worker.at_most_once(QUEUE, CONCURRENCY),
    };
    let report = worker.drain().await?;
    ensure!(report.total.done == jobs as u64, "{} of {jobs} jobs were done", report.total.done);
    Ok(())
}

/// Prints what each job took.
async fn measure(what: &str, jobs: usize, work: impl Future<Output = Result<()>>) -> Result<()> {
    let (begun, before) = (Instant::now(), own_time()?);
    work.await?;
    let (took, spent) = (begun.elapsed().as_secs_f64(), own_time()? - before);
    let each = |seconds: f64| seconds / jobs as f64 * 1e6;
    println!(
        "{what}: {:.0} jobs/s, {:.2} us each, {:.2} us of this process",
        jobs as f64 / took,
        each(took),
        each(spent)
    );
    Ok(())
}

/// The time that the threads of this process have had, in seconds.
fn own_time() -> Result<f64> {
    let mut nanos = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += stat.split(' ').next().context("schedstat is empty")?.parse::<f64>()?;
    }
    Ok(nanos / 1e9)
}

//! The memory of runs that wait for a signal.

use futures_util::stream::{StreamExt, iter};
use tidemill::workflow::{RunWorkflows, StartWorkflows};
use tidemill::{Client, Ctx, RunHandle, Signal, Worker, Workflow, WorkflowError};

use crate::world::{Background, patiently, until};

const WAITS: Workflow<u64, u64> = Workflow::new("waits");
const GO: Signal<u64> = Signal::new("go");

/// Number of waiting runs, and how many of them are signalled at the end.
const RUNS: usize = 100_000;
const ASKED: usize = 500;

/// Concurrent starts.
const AT_ONCE: usize = 500;

/// Maximum growth of the worker's memory.
const ALLOWED: usize = 300 << 20;

async fn waits(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    Ok(ctx.signals(&GO).recv().await? + n)
}

/// Starts runs that wait, and returns how much the process has grown.
async fn park(place: &str, client: &Client, cache: usize) -> usize {
    let worker =
        Worker::builder(client).workflow(&WAITS, waits).workflow_cache(cache).workflow_concurrency(AT_ONCE);
    let (worker, before) = (Background::run(worker), resident());
    let starts = (0..RUNS as u64).map(|n| async move { client.workflow(&WAITS, n).start().await.unwrap() });
    let runs: Vec<_> = iter(starts)
        .buffered(AT_ONCE)
        .enumerate()
        .filter_map(async |(n, run)| (n < ASKED).then_some(run))
        .collect()
        .await;
    until(async || {
        let queues = client.store().list_queues().await.unwrap();
        queues.iter().all(|queue| queue.ready + queue.running == 0)
    })
    .await;
    let grown = resident().saturating_sub(before);
    println!(
        "{RUNS} parked runs, {cache} of them in memory, on {place}: {} MB, {} bytes each",
        grown >> 20,
        grown / RUNS
    );
    for (n, run) in runs.iter().enumerate() {
        wake(n as u64, run).await;
    }
    worker.stop().await;
    grown
}

async fn wake(n: u64, run: &RunHandle<u64>) {
    run.signal(&GO, &1).await.unwrap();
    assert_eq!(patiently(run.wait()).await.unwrap(), n + 1);
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// On a file, so that only the worker grows and not an in-memory store. The small number first,
/// because a process does not return memory to the system.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn parked_runs_fit_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| format!("sqlite:{}", directory.path().join(name).display());
    let bounded = park("a SQLite file", &tidemill::connect(&file("a.db")).await.unwrap(), 1_000).await;
    let all = park("a SQLite file", &tidemill::connect(&file("b.db")).await.unwrap(), RUNS).await;
    assert!(all < ALLOWED && bounded < ALLOWED / 4, "{all} and {bounded} bytes");
}

//! Benchmark of the rescue: when the jobs of a killed worker run again, with one job in each of
//! many queues.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tidemill::{Client, Fail, Job, State, Worker};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

/// Timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Handler of the worker that is killed. Its programs outlive it and end by themselves.
const HANDLER_COMMAND: &str = "*=exec sleep 30";

#[derive(Serialize, Deserialize)]
struct HangingJob {
    queue: usize,
}

impl Job for HangingJob {
    const KIND: &'static str = "hang";
    type Output = ();
}

async fn record_rerun(
    job: HangingJob,
    State(seen): State<mpsc::UnboundedSender<(usize, Instant)>>,
) -> Result<(), Fail> {
    let _ = seen.send((job.queue, Instant::now()));
    Ok(())
}

/// Runs the benchmark.
pub(crate) async fn run(args: &super::RescueBench) -> Result<()> {
    let client = tidemill::connect(&args.store).await?;
    let names: Vec<_> = (0..args.queues).map(|queue| format!("tidemill-bench-{queue}")).collect();
    for (queue, name) in names.iter().enumerate() {
        client.job(HangingJob { queue }).queue(name).enqueue().await?;
    }
    let lease = Duration::from_secs(args.lease);
    let mut victim = start(args, &names)?;
    let all_run = async {
        while running(&client).await? < args.queues as u64 {
            sleep(Duration::from_millis(50)).await
        }
        anyhow::Ok(())
    };
    timeout(TIMEOUT, all_run).await.context("not all jobs have started")??;

    let (seen, mut again) = mpsc::unbounded_channel::<(usize, Instant)>();
    let worker = Worker::builder(&client).state(seen).handle(record_rerun).lease(lease);
    let worker = names.iter().fold(worker, |worker, name| worker.queue(name, 1));
    let stop_notify = Arc::new(Notify::new());
    let stop = stop_notify.clone();
    let rescuer = tokio::spawn(worker.run_until(async move { stop.notified().await }));
    // Until the worker is idle.
    sleep(lease).await;

    victim.kill().await?;
    let killed = Instant::now();
    let mut waits = Vec::with_capacity(names.len());
    while waits.len() < names.len() {
        let (_, at) = timeout(TIMEOUT, again.recv()).await?.context("the worker has ended")?;
        waits.push(at.saturating_duration_since(killed));
    }
    stop_notify.notify_one();
    rescuer.await??;
    waits.sort_unstable();
    let (first, last) = (waits[0], waits[waits.len() - 1]);
    println!(
        "{} queues, lease {lease:?}: jobs of a killed worker run again {first:.2?} to {last:.2?} after its death, {:.2?} after the lease",
        names.len(),
        last.saturating_sub(lease)
    );
    Ok(())
}

async fn running(client: &Client) -> Result<u64> {
    Ok(client.store().list_queues().await?.iter().map(|queue| queue.running).sum())
}

/// Starts a worker of all queues as a separate process.
fn start(args: &super::RescueBench, names: &[String]) -> Result<Child> {
    let default_program = || -> Result<PathBuf> { Ok(std::env::current_exe()?.with_file_name("tidemill")) };
    let program = args.tidemill.as_deref().map(Path::to_owned).map_or_else(default_program, Ok)?;
    if names.is_empty() {
        bail!("at least one queue is required");
    }
    let queues = names.iter().map(|name| format!("--queue={name}=1"));
    Command::new(&program)
        .args([
            "--store",
            &args.store,
            "worker",
            "--exec",
            HANDLER_COMMAND,
            "--lease",
            &format!("{}s", args.lease),
        ])
        .args(queues)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

//! How late jobs of a killed worker run again, one in each of many queues.

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

/// How long anything may take that does happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the worker does that is killed. Its programs outlive it and end by themselves.
const BUSY: &str = "*=exec sleep 30";

#[derive(Serialize, Deserialize)]
struct Hang {
    queue: usize,
}

impl Job for Hang {
    const KIND: &'static str = "hang";
    type Output = ();
}

async fn run_again(
    job: Hang,
    State(seen): State<mpsc::UnboundedSender<(usize, Instant)>>,
) -> Result<(), Fail> {
    let _ = seen.send((job.queue, Instant::now()));
    Ok(())
}

/// Measures it.
pub(crate) async fn run(wanted: &super::Rescue) -> Result<()> {
    let client = tidemill::connect(&wanted.store).await?;
    let names: Vec<_> = (0..wanted.queues).map(|queue| format!("tidemill-bench-{queue}")).collect();
    for (queue, name) in names.iter().enumerate() {
        client.job(Hang { queue }).queue(name).enqueue().await?;
    }
    let lease = Duration::from_secs(wanted.lease);
    let mut doomed = start(wanted, &names)?;
    let all_run = async {
        while running(&client).await? < wanted.queues as u64 {
            sleep(Duration::from_millis(50)).await
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, all_run).await.context("not all jobs have started")??;

    let (seen, mut again) = mpsc::unbounded_channel::<(usize, Instant)>();
    let worker = Worker::builder(&client).state(seen).handle(run_again).lease(lease);
    let worker = names.iter().fold(worker, |worker, name| worker.queue(name, 1));
    let over = Arc::new(Notify::new());
    let stop = over.clone();
    let rescuer = tokio::spawn(worker.run_until(async move { stop.notified().await }));
    // Until it is at rest.
    sleep(lease).await;

    doomed.kill().await?;
    let killed = Instant::now();
    let mut waits = Vec::with_capacity(names.len());
    while waits.len() < names.len() {
        let (_, at) = timeout(PATIENCE, again.recv()).await?.context("the worker has ended")?;
        waits.push(at.saturating_duration_since(killed));
    }
    over.notify_one();
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

/// Starts a worker of all queues in a process of its own.
fn start(wanted: &super::Rescue, names: &[String]) -> Result<Child> {
    let beside = || -> Result<PathBuf> { Ok(std::env::current_exe()?.with_file_name("tidemill")) };
    let program = wanted.tidemill.as_deref().map(Path::to_owned).map_or_else(beside, Ok)?;
    if names.is_empty() {
        bail!("there has to be a queue");
    }
    let queues = names.iter().map(|name| format!("--queue={name}=1"));
    Command::new(&program)
        .args(["--store", &wanted.store, "worker", "--exec", BUSY, "--lease", &format!("{}s", wanted.lease)])
        .args(queues)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

//! Benchmark of leases in a large fleet.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use tidemill::Client;
use tidemill_core::fleet::{Capacity, Offer, SessionId, WorkerDefaults};
use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{
    BeatParams, LeaseParams, Leased, ReleaseParams, WorkerEntry, WorkerStatus,
};
use tokio::task::JoinSet;

use crate::histogram::LatencyHistogram;

/// Runs the benchmark.
pub(crate) async fn run(args: &super::LeasesBench) -> Result<()> {
    let client = tidemill::connect(&args.store).await?;
    let workers: Vec<_> = (0..args.members).map(worker_entry).collect::<Result<_>>()?;
    let fleet = client.store();
    for some in workers.chunks(100) {
        fleet.join(some).await?;
    }
    lease_once(&client).await?;
    let before = client.store().commands();
    lease_once(&client).await?;
    println!("a lease and a release: {} commands", client.store().commands() - before);
    let times = lease_at_rate(&client, &workers, args).await?;
    println!(
        "{} leases/s among {} members: p50 {:.3} ms, p99 {:.3} ms, longest {:.3} ms",
        args.rate,
        args.members,
        times.p50(),
        times.at(0.99),
        times.at(1.0)
    );
    let all: Vec<_> = workers.into_iter().map(|entry| entry.id).collect();
    fleet.part(&all).await.context("the members could not leave")
}

fn worker_entry(number: usize) -> Result<WorkerEntry> {
    Ok(WorkerEntry {
        id: format!("chromium:bench-{number}").parse()?,
        offer: Offer::new("cdp")?,
        endpoint: format!("ws://127.0.0.1:1/{number}"),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: 5, lifetime: 50 },
        beat_timeout: Duration::from_secs(60),
        detail: Bytes::from_static(b"{}"),
    })
}

/// Leases at the given rate while all workers send heartbeats, and releases each lease after a
/// second.
async fn lease_at_rate(
    client: &Client,
    workers: &[WorkerEntry],
    args: &super::LeasesBench,
) -> Result<LatencyHistogram> {
    let mut times = LatencyHistogram::new()?;
    let (mut running, mut ticks) =
        (JoinSet::new(), tokio::time::interval(Duration::from_secs(1) / args.rate));
    let (beating, all) = (client.clone(), workers.to_vec());
    let beats = tokio::spawn(async move {
        for some in all.chunks(20).cycle() {
            let heartbeat = BeatParams { workers: some, grace: Duration::ZERO };
            let _ = beating.store().beat(heartbeat).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    for _ in 0..args.rate * args.seconds {
        ticks.tick().await;
        let client = client.clone();
        running.spawn(async move { lease_once(&client).await });
        while let Some(ended) = running.try_join_next() {
            times.add(ended??);
        }
    }
    while let Some(ended) = running.join_next().await {
        times.add(ended??);
    }
    beats.abort();
    Ok(times)
}

/// Measures one lease. Releases it a second later.
async fn lease_once(client: &Client) -> Result<Duration> {
    let (session, holder) = (SessionId::generate(), HolderId::from_process("bench", std::process::id(), 0));
    let lease = LeaseParams {
        session: session.clone(),
        kind: "chromium".parse()?,
        offers: vec!["cdp".parse()?],
        holder: holder.clone(),
        ttl: Duration::from_secs(15),
        keep: Duration::ZERO,
        detail: Bytes::from_static(b"{}"),
        rejected: Vec::new(),
        wait: None,
        defaults: WorkerDefaults::default(),
    };
    let started = Instant::now();
    let leased = client.store().lease(&lease).await?;
    let took = started.elapsed();
    if !matches!(leased, Leased::Granted(_)) {
        bail!("nothing was given: {leased:?}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.store().release(&[ReleaseParams { session, holder }]).await?;
    Ok(took)
}

//! Benchmark of the gateway's overhead over a direct connection.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tidemill_core::fleet::{Capacity, Offer};
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerStatus};
use tidemill_testkit::browser::{Browser, Cdp, serve_page};

use crate::gateway_process::GatewayProcess;
use crate::histogram::{LatencyHistogram, compare};

/// Runs the benchmark.
pub(crate) async fn run(args: &super::GatewayBench) -> Result<()> {
    let directory = tempfile::TempDir::new()?;
    // Other processes cannot open an in-memory store.
    let store = match args.store.as_str() {
        "sqlite::memory:" => format!("sqlite:{}", directory.path().join("fleet.db").display()),
        other => other.to_owned(),
    };
    let browser = Browser::start(args.binary.as_deref()).await?;
    let _heartbeat = join_fleet(&store, &browser.endpoint).await?;
    let gateway = GatewayProcess::start(args.tidemill.as_deref(), &store).await?;
    let (direct, through) = (browser.endpoint.as_str(), gateway.url.as_str());
    measure_connect(direct, through, args.samples).await?;
    measure_round_trips(direct, through, args.samples * 10).await?;
    measure_first_pages(direct, through, args.samples.div_ceil(5)).await?;
    measure_memory(&gateway, args.sessions).await
}

/// Registers the browser as a worker with unlimited sessions, and sends its heartbeats.
async fn join_fleet(store: &str, endpoint: &str) -> Result<tokio::task::JoinHandle<()>> {
    let client = tidemill::connect(store).await?;
    let worker = WorkerEntry {
        id: "chromium:measured".parse()?,
        offer: Offer::new("cdp")?,
        endpoint: endpoint.to_owned(),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: 100_000, lifetime: 0 },
        beat_timeout: Duration::from_secs(15),
        detail: Bytes::from_static(b"{}"),
    };
    client.store().join(from_ref(&worker)).await?;
    Ok(tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let params = BeatParams { workers: from_ref(&worker), grace: Duration::ZERO };
            let _ = client.store().beat(params).await;
        }
    }))
}

/// Measures the time from the connect to the first answer of the browser.
async fn measure_connect(direct: &str, through: &str, samples: usize) -> Result<()> {
    let mut times = [LatencyHistogram::new()?, LatencyHistogram::new()?];
    for sample in 0..samples + 10 {
        for (times, url) in times.iter_mut().zip([direct, through]) {
            let started = Instant::now();
            let mut cdp = Cdp::connect(url).await?;
            cdp.call("Browser.getVersion", json!({})).await?;
            // The first samples warm everything up.
            if sample >= 10 {
                times.add_since(started);
            }
        }
    }
    compare("connect", &times[0], &times[1]);
    Ok(())
}

async fn measure_round_trips(direct: &str, through: &str, samples: usize) -> Result<()> {
    let mut times = [LatencyHistogram::new()?, LatencyHistogram::new()?];
    let mut connections = [Cdp::connect(direct).await?, Cdp::connect(through).await?];
    for _ in 0..samples {
        for (times, cdp) in times.iter_mut().zip(&mut connections) {
            let started = Instant::now();
            cdp.call("Browser.getVersion", json!({})).await?;
            times.add_since(started);
        }
    }
    compare("round trip", &times[0], &times[1]);
    Ok(())
}

async fn measure_first_pages(direct: &str, through: &str, samples: usize) -> Result<()> {
    let url = serve_page().await?;
    let mut times = [LatencyHistogram::new()?, LatencyHistogram::new()?];
    for sample in 0..samples + 2 {
        for (times, endpoint) in times.iter_mut().zip([direct, through]) {
            let started = Instant::now();
            Cdp::connect(endpoint).await?.open_page(&url).await?;
            if sample >= 2 {
                times.add_since(started);
            }
        }
    }
    compare("first page", &times[0], &times[1]);
    Ok(())
}

async fn measure_memory(gateway: &GatewayProcess, sessions: usize) -> Result<()> {
    let before = gateway.memory()?;
    let open = stream::iter(0..sessions).map(|_| async {
        let mut cdp = Cdp::connect(&gateway.url).await?;
        cdp.call("Browser.getVersion", json!({})).await?;
        anyhow::Ok(cdp)
    });
    // All sessions use one browser, which does not accept all of them at the same moment.
    let opened = open.buffer_unordered(20).try_collect::<Vec<_>>().await;
    let mut open = opened.context("not all sessions could be opened")?;
    for cdp in &mut open {
        cdp.call("Browser.getVersion", json!({})).await?;
    }
    println!("memory         {before:.1} MB before, {:.1} MB with {sessions} sessions", gateway.memory()?);
    Ok(())
}

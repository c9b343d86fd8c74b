//! What the gateway adds to a direct connection.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tidemill_core::fleet::{Capacity, Offer};
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerStatus};
use tidemill_testkit::browser::{Browser, Cdp, serve_page};

use crate::figures::{Times, compare};
use crate::gateway::Gateway;

/// Measures it.
pub(crate) async fn run(wanted: &super::Gateway) -> Result<()> {
    let directory = tempfile::TempDir::new()?;
    // A store in memory is one process's own.
    let store = match wanted.store.as_str() {
        "sqlite::memory:" => format!("sqlite:{}", directory.path().join("fleet.db").display()),
        other => other.to_owned(),
    };
    let browser = Browser::start(wanted.binary.as_deref()).await?;
    let _beating = enter(&store, &browser.endpoint).await?;
    let gateway = Gateway::start(wanted.tidemill.as_deref(), &store).await?;
    let (direct, through) = (browser.endpoint.as_str(), gateway.url.as_str());
    connecting(direct, through, wanted.samples).await?;
    round_trips(direct, through, wanted.samples * 10).await?;
    first_pages(direct, through, wanted.samples.div_ceil(5)).await?;
    memory(&gateway, wanted.sessions).await
}

/// Enters the browser as a member that takes any number of sessions, and lets it beat.
async fn enter(store: &str, endpoint: &str) -> Result<tokio::task::JoinHandle<()>> {
    let client = tidemill::connect(store).await?;
    let member = WorkerEntry {
        id: "chromium:measured".parse()?,
        offer: Offer::new("cdp")?,
        endpoint: endpoint.to_owned(),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: 100_000, lifetime: 0 },
        beat_timeout: Duration::from_secs(15),
        detail: Bytes::from_static(b"{}"),
    };
    client.store().fleet().join(from_ref(&member)).await?;
    Ok(tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let beat = BeatParams { workers: from_ref(&member), grace: Duration::ZERO };
            let _ = client.store().fleet().beat(beat).await;
        }
    }))
}

/// From nothing to the first answer of the browser, which is what a client waits for.
async fn connecting(direct: &str, through: &str, samples: usize) -> Result<()> {
    let mut times = [Times::new()?, Times::new()?];
    for sample in 0..samples + 10 {
        for (times, url) in times.iter_mut().zip([direct, through]) {
            let begun = Instant::now();
            let mut cdp = Cdp::connect(url).await?;
            cdp.call("Browser.getVersion", json!({})).await?;
            // The first ones warm everything up.
            if sample >= 10 {
                times.add_since(begun);
            }
        }
    }
    compare("connect", &times[0], &times[1]);
    Ok(())
}

async fn round_trips(direct: &str, through: &str, samples: usize) -> Result<()> {
    let mut times = [Times::new()?, Times::new()?];
    let mut connections = [Cdp::connect(direct).await?, Cdp::connect(through).await?];
    for _ in 0..samples {
        for (times, cdp) in times.iter_mut().zip(&mut connections) {
            let begun = Instant::now();
            cdp.call("Browser.getVersion", json!({})).await?;
            times.add_since(begun);
        }
    }
    compare("round trip", &times[0], &times[1]);
    Ok(())
}

async fn first_pages(direct: &str, through: &str, samples: usize) -> Result<()> {
    let url = serve_page().await?;
    let mut times = [Times::new()?, Times::new()?];
    for sample in 0..samples + 2 {
        for (times, endpoint) in times.iter_mut().zip([direct, through]) {
            let begun = Instant::now();
            Cdp::connect(endpoint).await?.open_page(&url).await?;
            if sample >= 2 {
                times.add_since(begun);
            }
        }
    }
    compare("first page", &times[0], &times[1]);
    Ok(())
}

async fn memory(gateway: &Gateway, sessions: usize) -> Result<()> {
    let before = gateway.memory()?;
    let open = stream::iter(0..sessions).map(|_| async {
        let mut cdp = Cdp::connect(&gateway.url).await?;
        cdp.call("Browser.getVersion", json!({})).await?;
        anyhow::Ok(cdp)
    });
    // All go to one browser, which does not take all of them at the same moment.
    let opened = open.buffer_unordered(20).try_collect::<Vec<_>>().await;
    let mut open = opened.context("not all sessions could be opened")?;
    for cdp in &mut open {
        cdp.call("Browser.getVersion", json!({})).await?;
    }
    println!("memory         {before:.1} MB before, {:.1} MB with {sessions} sessions", gateway.memory()?);
    Ok(())
}

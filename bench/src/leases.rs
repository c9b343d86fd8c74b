//! What a lease costs in a large fleet.

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

use crate::figures::Times;

/// Measures it.
pub(crate) async fn run(wanted: &super::Leases) -> Result<()> {
    let client = tidemill::connect(&wanted.store).await?;
    let members: Vec<_> = (0..wanted.members).map(member).collect::<Result<_>>()?;
    let fleet = client.store().fleet();
    for some in members.chunks(100) {
        fleet.join(some).await?;
    }
    one(&client).await?;
    let before = client.store().commands();
    one(&client).await?;
    println!("a lease and a release: {} commands", client.store().commands() - before);
    let times = many(&client, &members, wanted).await?;
    println!(
        "{} leases/s among {} members: p50 {:.3} ms, p99 {:.3} ms, longest {:.3} ms",
        wanted.rate,
        wanted.members,
        times.p50(),
        times.at(0.99),
        times.at(1.0)
    );
    let all: Vec<_> = members.into_iter().map(|member| member.id).collect();
    fleet.part(&all).await.context("the members could not leave")
}

fn member(number: usize) -> Result<WorkerEntry> {
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

/// Leases at the wanted rate while all members beat, and gives each back after a second.
async fn many(client: &Client, members: &[WorkerEntry], wanted: &super::Leases) -> Result<Times> {
    let mut times = Times::new()?;
    let (mut running, mut ticks) =
        (JoinSet::new(), tokio::time::interval(Duration::from_secs(1) / wanted.rate));
    let (beating, all) = (client.clone(), members.to_vec());
    let beats = tokio::spawn(async move {
        for some in all.chunks(20).cycle() {
            let beat = BeatParams { workers: some, grace: Duration::ZERO };
            let _ = beating.store().fleet().beat(beat).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    for _ in 0..wanted.rate * wanted.seconds {
        ticks.tick().await;
        let client = client.clone();
        running.spawn(async move { one(&client).await });
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

/// How long one lease took. It is given back a second later.
async fn one(client: &Client) -> Result<Duration> {
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
    let begun = Instant::now();
    let leased = client.store().fleet().lease(&lease).await?;
    let took = begun.elapsed();
    if !matches!(leased, Leased::Granted(_)) {
        bail!("nothing was given: {leased:?}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.store().fleet().release(&[ReleaseParams { session, holder }]).await?;
    Ok(took)
}

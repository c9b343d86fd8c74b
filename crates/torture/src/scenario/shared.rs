//! Gateways are killed and the store fails while clients share browsers that take a few of them each. The browsers'
//! connections are counted where nobody can be wrong about them, in the kernel: there are never more than may be.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::json;
use tidemill::Client;
use tidemill::fleet::{
    BeatParams, Capacity, ListSessionsParams, Offer, WorkerDefaults, WorkerEntry, WorkerStatus,
};
use tidemill_testkit::browser::{Browser, Cdp, CdpError};
use tokio::task::JoinSet;

use super::outage::Fault;
use crate::harbour::{Hand, Post};
use crate::stage::{PATIENCE, Stage};

/// How long sessions are leased here.
const LEASE: Duration = Duration::from_secs(4);

/// For how long a browser's beat counts. Shorter than a lease by more than it takes to extend one, as everywhere: when the store is back and leases have
/// run out meanwhile, it does not know the browsers either, and waits for holders to speak before it gives one away.
const FRESH: Duration = Duration::from_secs(1);

/// How many browsers, how many clients each takes, and how many clients there are.
const BROWSERS: usize = 2;
const PLACES: usize = 3;
const CLIENTS: usize = 10;

/// The least time between two starts of gateways.
const REST: Duration = Duration::from_millis(100);

/// One in so many blows hits the store, the others a gateway.
const STORE: usize = 8;

/// What came of it.
#[derive(Debug, Default)]
pub struct Reckoning {
    /// How many gateways were killed.
    pub kills: usize,
    /// How often the store failed.
    pub faults: usize,
    /// How many sessions went well from beginning to end.
    pub whole: usize,
    /// The most connections that one browser had.
    pub most: usize,
}

impl fmt::Display for Reckoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, faults, whole, most } = self;
        write!(
            f,
            "shared: {kills} gateways killed and {faults} faults of the store, {whole} sessions whole; no browser had more \
             than {most} connections, {PLACES} may be; all places free in the end"
        )
    }
}

/// What everybody sees.
#[derive(Debug, Default)]
struct Seen {
    over: AtomicBool,
    whole: AtomicUsize,
    most: AtomicUsize,
    /// What was done last, and when.
    blow: Mutex<Option<(String, Instant)>>,
}

impl Seen {
    fn note(&self, blow: impl fmt::Display) {
        let mut last = self.blow.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((blow.to_string(), Instant::now()));
    }

    fn last(&self) -> String {
        let last = self.blow.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|(blow, when)| format!("{:.1?} after {blow}", when.elapsed())).unwrap_or_default()
    }
}

/// Strikes so many blows while clients come and go.
pub async fn run(stage: &Stage, seed: u64, blows: usize) -> Result<Reckoning> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let (browsers, seen, mut crowd) = (start().await?, Arc::new(Seen::default()), JoinSet::new());
    let members = browsers.iter().enumerate().map(member).collect::<Result<Vec<_>>>()?;
    stage.client.store().fleet().join(&members).await?;
    crowd.spawn(beat(stage.client.clone(), members, seen.clone()));
    crowd.spawn(count(ports(&browsers)?, seen.clone()));
    let free = || anyhow::Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?);
    let addresses = [free()?, free()?];
    let mut gateways = Gateways::open(stage, addresses)?;
    for number in 0..CLIENTS {
        crowd.spawn(come_and_go(addresses[number % 2], seen.clone(), seed.wrapping_add(number as u64)));
    }
    let mut reckoning = Reckoning::default();
    for blow in 1..=blows {
        progress(&seen, blow, &mut crowd, &mut gateways).await?;
        if dice.usize(..STORE) == 0 {
            let faults = Fault::of(stage.place());
            let fault = faults[dice.usize(..faults.len())];
            seen.note(format!("the store was to be {fault}"));
            fault.strike(stage.place()).await?;
            reckoning.faults += 1;
        } else {
            seen.note("a gateway was killed");
            gateways.hands[dice.usize(..2)].kill()?;
            reckoning.kills += 1;
        }
    }
    seen.over.store(true, Ordering::Relaxed);
    while let Some(ended) = crowd.join_next().await {
        ended??;
    }
    until_free(&stage.client).await?;
    [reckoning.whole, reckoning.most] = [&seen.whole, &seen.most].map(|count| count.load(Ordering::Relaxed));
    ensure!(reckoning.most > 0, "no connection was ever seen, so nothing was shown");
    Ok(reckoning)
}

async fn start() -> Result<Vec<Browser>> {
    let mut browsers = Vec::new();
    for _ in 0..BROWSERS {
        browsers.push(Browser::start(None).await?);
    }
    Ok(browsers)
}

fn member((number, browser): (usize, &Browser)) -> Result<WorkerEntry> {
    Ok(WorkerEntry {
        id: format!("shared:{number}").parse()?,
        offer: Offer::new("cdp")?,
        endpoint: browser.endpoint.clone(),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: PLACES as u32, lifetime: 0 },
        beat_timeout: FRESH,
        detail: Bytes::from_static(b"{}"),
    })
}

/// The gateways, each with somebody who starts it again: one that comes up while the store is away ends by itself.
struct Gateways<'a> {
    stage: &'a Stage,
    addresses: [SocketAddr; 2],
    hands: [Hand; 2],
    /// When one was last started.
    started: Instant,
}

impl<'a> Gateways<'a> {
    fn open(stage: &'a Stage, addresses: [SocketAddr; 2]) -> Result<Self> {
        let hands = [start_gateway(stage, addresses[0])?, start_gateway(stage, addresses[1])?];
        Ok(Self { stage, addresses, hands, started: Instant::now() })
    }

    fn tend(&mut self) -> Result<()> {
        for (hand, address) in self.hands.iter_mut().zip(self.addresses) {
            if self.started.elapsed() > REST && hand.has_ended()? {
                self.started = Instant::now();
                *hand = start_gateway(self.stage, address)?;
            }
        }
        Ok(())
    }
}

fn start_gateway(stage: &Stage, listen: SocketAddr) -> Result<Hand> {
    let (store, lease_ms) = (stage.place().url(), LEASE.as_millis() as u64);
    Hand::start(stage.program(), &Post::Gateway { store, listen, lease_ms })
}

/// Says that the browsers live, as an agent does.
async fn beat(client: Client, members: Vec<WorkerEntry>, seen: Arc<Seen>) -> Result<()> {
    while !seen.over.load(Ordering::Relaxed) {
        // The store may be away: that is what this is about.
        let _ = client.store().fleet().beat(BeatParams { workers: &members, grace: LEASE * 2 }).await;
        tokio::time::sleep(FRESH / 4).await;
    }
    Ok(())
}

/// Counts every browser's connections, again and again. The kernel's list is not of one moment, so what counts is what
/// was there in two lists that follow one another: all of that was there at the same time between them.
async fn count(ports: Vec<u16>, seen: Arc<Seen>) -> Result<()> {
    let mut before = connections()?;
    while !seen.over.load(Ordering::Relaxed) {
        let now = connections()?;
        for port in &ports {
            let there = now.intersection(&before).filter(|(local, _)| local == port).count();
            seen.most.fetch_max(there, Ordering::Relaxed);
            ensure!(
                there <= PLACES,
                "{}, a browser has {there} clients at once: {PLACES} may be",
                seen.last()
            );
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn ports(browsers: &[Browser]) -> Result<Vec<u16>> {
    let port = |browser: &Browser| browser.endpoint.rsplit_once(':')?.1.split_once('/')?.0.parse().ok();
    browsers.iter().map(port).collect::<Option<_>>().context("a browser with a strange address")
}

/// The established connections: their local ports, and who is at the other end.
fn connections() -> Result<HashSet<(u16, String)>> {
    const ESTABLISHED: &str = "01";
    let mut found = HashSet::new();
    for line in std::fs::read_to_string("/proc/net/tcp")?.lines().skip(1) {
        let words: Vec<_> = line.split_whitespace().take(4).collect();
        let [_, local, remote, ESTABLISHED] = words[..] else { continue };
        let port = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        found.insert((port.context("a strange line in /proc/net/tcp")?, remote.to_owned()));
    }
    Ok(found)
}

async fn come_and_go(gateway: SocketAddr, seen: Arc<Seen>, seed: u64) -> Result<()> {
    let mut dice = fastrand::Rng::with_seed(seed);
    while !seen.over.load(Ordering::Relaxed) {
        match visit(gateway, Duration::from_millis(dice.u64(..200))).await {
            Ok(()) => drop(seen.whole.fetch_add(1, Ordering::Relaxed)),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    Ok(())
}

async fn visit(gateway: SocketAddr, stay: Duration) -> Result<(), CdpError> {
    let mut browser = Cdp::connect(&format!("ws://{gateway}/?browser=shared&protocol=cdp")).await?;
    for _ in 0..2 {
        browser.call("Browser.getVersion", json!({})).await?;
        tokio::time::sleep(stay / 2).await;
    }
    Ok(())
}

/// Waits until sessions have come to their end since the last blow.
async fn progress(
    seen: &Seen,
    blow: usize,
    crowd: &mut JoinSet<Result<()>>,
    gateways: &mut Gateways<'_>,
) -> Result<()> {
    let begun = Instant::now();
    while seen.whole.load(Ordering::Relaxed) < blow * 2 {
        if let Some(ended) = crowd.try_join_next() {
            ended??;
        }
        gateways.tend()?;
        ensure!(begun.elapsed() < PATIENCE, "no session comes to its end: {seen:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn until_free(client: &Client) -> Result<()> {
    let (fleet, begun) = (client.store().fleet(), Instant::now());
    loop {
        // The store may have failed only just now.
        let _ = fleet.reap(Some(WorkerDefaults::default())).await;
        let sessions =
            fleet.list_sessions(ListSessionsParams { worker: None, cursor: None, limit: 10 }).await;
        if sessions.as_ref().is_ok_and(|page| page.items.is_empty()) {
            return Ok(());
        }
        ensure!(begun.elapsed() < LEASE * 5, "places are still taken: {sessions:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

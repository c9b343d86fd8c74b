//! Gateways are killed and the store fails while clients share browsers of limited capacity. The
//! kernel's list of connections shows that no browser ever exceeds its capacity.

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
use crate::environment::{Environment, TIMEOUT};
use crate::gateway_process::{FleetProcess, FleetProcessSpec};

/// Lease of sessions.
const LEASE: Duration = Duration::from_secs(4);

/// Time for which a heartbeat of a browser counts. It is shorter than a lease by more than it takes
/// to extend one, as everywhere. If leases expire in an outage, the heartbeats expire too. So the
/// returning store first waits for the holders before it leases a browser.
const HEARTBEAT_TTL: Duration = Duration::from_secs(1);

/// Number of browsers, sessions per browser, and clients.
const BROWSERS: usize = 2;
const SESSIONS_PER_BROWSER: usize = 3;
const CLIENTS: usize = 10;

/// Minimum time between two starts of gateways.
const MIN_RESTART_INTERVAL: Duration = Duration::from_millis(100);

/// One in this many faults hits the store, the others a gateway.
const STORE_FAULT_ODDS: usize = 8;

/// The report of the scenario.
#[derive(Debug, Default)]
pub struct SharedReport {
    /// Gateways that were killed.
    pub kills: usize,
    /// Faults of the store.
    pub faults: usize,
    /// Sessions that completed.
    pub whole: usize,
    /// Maximum number of connections of one browser.
    pub max_connections: usize,
}

impl fmt::Display for SharedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, faults, whole, max_connections } = self;
        write!(
            f,
            "shared: {kills} gateways killed and {faults} faults of the store, {whole} sessions whole; no browser had more \
             than {max_connections} connections of {SESSIONS_PER_BROWSER}; no session left at the end"
        )
    }
}

/// Counters that all tasks share.
#[derive(Debug, Default)]
struct SharedStats {
    stopped: AtomicBool,
    whole: AtomicUsize,
    max_connections: AtomicUsize,
    /// The last fault, and its time.
    last_fault: Mutex<Option<(String, Instant)>>,
}

impl SharedStats {
    fn note(&self, fault: impl fmt::Display) {
        let mut last = self.last_fault.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((fault.to_string(), Instant::now()));
    }

    fn last(&self) -> String {
        let last = self.last_fault.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|(fault, when)| format!("{:.1?} after {fault}", when.elapsed())).unwrap_or_default()
    }
}

/// Injects this many faults while clients open and close sessions.
pub async fn run(environment: &Environment, seed: u64, rounds: usize) -> Result<SharedReport> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (browsers, stats, mut tasks) = (start().await?, Arc::new(SharedStats::default()), JoinSet::new());
    let workers = browsers.iter().enumerate().map(worker_entry).collect::<Result<Vec<_>>>()?;
    environment.client.store().join(&workers).await?;
    tasks.spawn(beat(environment.client.clone(), workers, stats.clone()));
    tasks.spawn(count(ports(&browsers)?, stats.clone()));
    let free = || anyhow::Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?);
    let addresses = [free()?, free()?];
    let mut gateways = Gateways::open(environment, addresses)?;
    for number in 0..CLIENTS {
        tasks.spawn(run_client(addresses[number % 2], stats.clone(), seed.wrapping_add(number as u64)));
    }
    let mut report = SharedReport::default();
    for round in 1..=rounds {
        wait_for_progress(&stats, round, &mut tasks, &mut gateways).await?;
        if rng.usize(..STORE_FAULT_ODDS) == 0 {
            let faults = Fault::for_store(environment.store());
            let fault = faults[rng.usize(..faults.len())];
            stats.note(format!("the store was to be {fault}"));
            fault.inject(environment.store()).await?;
            report.faults += 1;
        } else {
            stats.note("a gateway was killed");
            gateways.processes[rng.usize(..2)].kill()?;
            report.kills += 1;
        }
    }
    stats.stopped.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    until_free(&environment.client).await?;
    [report.whole, report.max_connections] =
        [&stats.whole, &stats.max_connections].map(|count| count.load(Ordering::Relaxed));
    ensure!(report.max_connections > 0, "no connection was seen, so the scenario shows nothing");
    Ok(report)
}

async fn start() -> Result<Vec<Browser>> {
    let mut browsers = Vec::new();
    for _ in 0..BROWSERS {
        browsers.push(Browser::start(None).await?);
    }
    Ok(browsers)
}

fn worker_entry((number, browser): (usize, &Browser)) -> Result<WorkerEntry> {
    Ok(WorkerEntry {
        id: format!("shared:{number}").parse()?,
        offer: Offer::new("cdp")?,
        endpoint: browser.endpoint.clone(),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: SESSIONS_PER_BROWSER as u32, lifetime: 0 },
        beat_timeout: HEARTBEAT_TTL,
        detail: Bytes::from_static(b"{}"),
    })
}

/// The gateways and their supervisor: a gateway that starts in an outage exits.
struct Gateways<'a> {
    environment: &'a Environment,
    addresses: [SocketAddr; 2],
    processes: [FleetProcess; 2],
    /// The time of the last start.
    started: Instant,
}

impl<'a> Gateways<'a> {
    fn open(environment: &'a Environment, addresses: [SocketAddr; 2]) -> Result<Self> {
        let processes =
            [start_gateway(environment, addresses[0])?, start_gateway(environment, addresses[1])?];
        Ok(Self { environment, addresses, processes, started: Instant::now() })
    }

    fn restart_ended(&mut self) -> Result<()> {
        for (process, address) in self.processes.iter_mut().zip(self.addresses) {
            if self.started.elapsed() > MIN_RESTART_INTERVAL && process.has_ended()? {
                self.started = Instant::now();
                *process = start_gateway(self.environment, address)?;
            }
        }
        Ok(())
    }
}

fn start_gateway(environment: &Environment, listen: SocketAddr) -> Result<FleetProcess> {
    let (store, lease_ms) = (environment.store().url(), LEASE.as_millis() as u64);
    FleetProcess::start(environment.program(), &FleetProcessSpec::Gateway { store, listen, lease_ms })
}

/// Sends the heartbeats of the browsers, like an agent.
async fn beat(client: Client, workers: Vec<WorkerEntry>, stats: Arc<SharedStats>) -> Result<()> {
    while !stats.stopped.load(Ordering::Relaxed) {
        // The store may be unavailable on purpose.
        let _ = client.store().beat(BeatParams { workers: &workers, grace: LEASE * 2 }).await;
        tokio::time::sleep(HEARTBEAT_TTL / 4).await;
    }
    Ok(())
}

/// Counts the connections of every browser again and again. The kernel's list is not a snapshot of
/// one moment. So only connections in two successive lists count: all of them existed at the same
/// time.
async fn count(ports: Vec<u16>, stats: Arc<SharedStats>) -> Result<()> {
    let mut before = connections()?;
    while !stats.stopped.load(Ordering::Relaxed) {
        let now = connections()?;
        for port in &ports {
            let there = now.intersection(&before).filter(|(local, _)| local == port).count();
            stats.max_connections.fetch_max(there, Ordering::Relaxed);
            ensure!(
                there <= SESSIONS_PER_BROWSER,
                "{}, a browser has {there} clients at once: at most {SESSIONS_PER_BROWSER} are allowed",
                stats.last()
            );
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn ports(browsers: &[Browser]) -> Result<Vec<u16>> {
    let port = |browser: &Browser| browser.endpoint.rsplit_once(':')?.1.split_once('/')?.0.parse().ok();
    browsers.iter().map(port).collect::<Option<_>>().context("the browser's address has no port")
}

/// The established connections: local port and remote address.
fn connections() -> Result<HashSet<(u16, String)>> {
    const ESTABLISHED: &str = "01";
    let mut found = HashSet::new();
    for line in std::fs::read_to_string("/proc/net/tcp")?.lines().skip(1) {
        let fields: Vec<_> = line.split_whitespace().take(4).collect();
        let [_, local, remote, ESTABLISHED] = fields[..] else { continue };
        let port = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        found.insert((port.context("an unexpected line in /proc/net/tcp")?, remote.to_owned()));
    }
    Ok(found)
}

async fn run_client(gateway: SocketAddr, stats: Arc<SharedStats>, seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    while !stats.stopped.load(Ordering::Relaxed) {
        match open_session(gateway, Duration::from_millis(rng.u64(..200))).await {
            Ok(()) => drop(stats.whole.fetch_add(1, Ordering::Relaxed)),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    Ok(())
}

async fn open_session(gateway: SocketAddr, hold: Duration) -> Result<(), CdpError> {
    let mut browser = Cdp::connect(&format!("ws://{gateway}/?browser=shared&protocol=cdp")).await?;
    for _ in 0..2 {
        browser.call("Browser.getVersion", json!({})).await?;
        tokio::time::sleep(hold / 2).await;
    }
    Ok(())
}

/// Waits until sessions have completed since the last fault.
async fn wait_for_progress(
    stats: &SharedStats,
    round: usize,
    tasks: &mut JoinSet<Result<()>>,
    gateways: &mut Gateways<'_>,
) -> Result<()> {
    let started = Instant::now();
    while stats.whole.load(Ordering::Relaxed) < round * 2 {
        if let Some(ended) = tasks.try_join_next() {
            ended??;
        }
        gateways.restart_ended()?;
        ensure!(started.elapsed() < TIMEOUT, "no session completes: {stats:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn until_free(client: &Client) -> Result<()> {
    let (fleet, started) = (client.store(), Instant::now());
    loop {
        // The store may have failed a moment ago.
        let _ = fleet.reap(Some(WorkerDefaults::default())).await;
        let sessions =
            fleet.list_sessions(ListSessionsParams { worker: None, cursor: None, limit: 10 }).await;
        if sessions.as_ref().is_ok_and(|page| page.items.is_empty()) {
            return Ok(());
        }
        ensure!(started.elapsed() < LEASE * 5, "sessions are left: {sessions:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

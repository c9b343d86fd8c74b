//! Gateways and agents are killed while clients have sessions open. The pages of each browser show
//! whether two clients shared it. Afterwards no session, process or directory is left.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tidemill::Client;
use tidemill::fleet::{ListSessionsParams, ListWorkersParams, WorkerDefaults, WorkerInfo};
use tidemill_testkit::browser::{Cdp, CdpError};
use tokio::task::JoinSet;

use crate::environment::{Environment, TIMEOUT};
use crate::gateway_process::{FleetProcess, FleetProcessSpec};

/// Lease of sessions.
const LEASE: Duration = Duration::from_secs(2);

/// Idle and maximum number of browsers of an agent.
const BROWSERS: (usize, usize) = (1, 3);

/// Interval of checks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The report of the scenario.
#[derive(Debug, Default)]
pub struct FleetReport {
    /// Processes that were killed.
    pub kills: usize,
    /// Sessions that completed.
    pub whole: usize,
    /// Sessions that failed or were interrupted.
    pub cut: usize,
    /// Time from the last kill until no session was left.
    pub freed: Duration,
}

impl fmt::Display for FleetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, whole, cut, freed } = self;
        write!(
            f,
            "fleet: {kills} gateways and agents killed, {whole} sessions whole and {cut} cut, no two clients shared a \
             browser; all sessions gone {freed:.1?} after the last kill, no process and no directory left"
        )
    }
}

/// Two gateways and two agents.
struct FleetUnderTest<'a> {
    environment: &'a Environment,
    directory: PathBuf,
    addresses: [SocketAddr; 2],
    processes: Vec<FleetProcess>,
}

/// Counters that the clients share.
#[derive(Debug, Default)]
struct ClientStats {
    stopped: AtomicBool,
    numbers: AtomicUsize,
    whole: AtomicUsize,
    cut: AtomicUsize,
}

/// Kills this many processes while clients open and close sessions.
pub async fn run(environment: &Environment, seed: u64, kills: usize) -> Result<FleetReport> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut fleet = FleetUnderTest::open(environment)?;
    let (stats, mut clients) = (Arc::new(ClientStats::default()), JoinSet::new());
    for number in 0..4 {
        let address = fleet.addresses[number % 2];
        clients.spawn(run_client(address, stats.clone(), seed.wrapping_add(number as u64)));
    }
    for kill in 1..=kills {
        wait_for_sessions(&stats, kill, &mut clients).await?;
        fleet.replace(rng.usize(..fleet.processes.len()))?;
    }
    stats.stopped.store(true, Ordering::Relaxed);
    let last = Instant::now();
    for gateway in &mut fleet.processes[..2] {
        gateway.kill()?;
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let freed = until_free(&environment.client, last).await?;
    fleet.close().await?;
    let [whole, cut] = [&stats.whole, &stats.cut].map(|count| count.load(Ordering::Relaxed));
    Ok(FleetReport { kills, whole, cut, freed })
}

/// Waits for completed sessions before each kill: a kill without open sessions shows nothing.
async fn wait_for_sessions(
    stats: &ClientStats,
    kills: usize,
    clients: &mut JoinSet<Result<()>>,
) -> Result<()> {
    let started = Instant::now();
    while stats.whole.load(Ordering::Relaxed) < kills {
        if let Some(ended) = clients.try_join_next() {
            ended??;
        }
        ensure!(started.elapsed() < TIMEOUT, "no session completes: {stats:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

impl<'a> FleetUnderTest<'a> {
    fn open(environment: &'a Environment) -> Result<Self> {
        let directory = environment.path_of("browsers");
        std::fs::create_dir(&directory)?;
        let free = || anyhow::Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?);
        let mut fleet = Self { environment, directory, addresses: [free()?, free()?], processes: Vec::new() };
        for index in 0..4 {
            let process = fleet.start(index)?;
            fleet.processes.push(process);
        }
        Ok(fleet)
    }

    fn start(&self, index: usize) -> Result<FleetProcess> {
        let store = self.environment.store().url();
        let spec = match self.addresses.get(index) {
            Some(listen) => {
                FleetProcessSpec::Gateway { store, listen: *listen, lease_ms: LEASE.as_millis() as u64 }
            }
            None => FleetProcessSpec::Agent { store, directory: self.directory.clone(), browsers: BROWSERS },
        };
        FleetProcess::start(self.environment.program(), &spec)
    }

    /// Kills one process and starts its replacement.
    fn replace(&mut self, index: usize) -> Result<()> {
        self.processes[index].kill()?;
        self.processes[index] = self.start(index)?;
        Ok(())
    }

    /// Stops all processes in order. The leftovers of killed processes must disappear by
    /// themselves.
    async fn close(self) -> Result<()> {
        for process in self.processes {
            process.shut_down()?;
        }
        let started = Instant::now();
        loop {
            let (processes, directories) = (processes_in(&self.directory)?, entries(&self.directory)?);
            if processes.is_empty() && directories.is_empty() {
                return Ok(());
            }
            if started.elapsed() > TIMEOUT / 4 {
                bail!("left behind: processes {processes:?}, directories {directories:?}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// A client that opens sessions until the scenario ends. Counts failures after a kill; fails if it
/// finds the page of another client.
async fn run_client(gateway: SocketAddr, stats: Arc<ClientStats>, seed: u64) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    while !stats.stopped.load(Ordering::Relaxed) {
        let number = stats.numbers.fetch_add(1, Ordering::Relaxed);
        match open_session(gateway, number, Duration::from_millis(rng.u64(..200))).await? {
            Ok(()) => stats.whole.fetch_add(1, Ordering::Relaxed),
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                stats.cut.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
    Ok(())
}

/// One session: opens a marked page and checks twice for pages of other clients.
async fn open_session(gateway: SocketAddr, number: usize, hold: Duration) -> Result<Result<(), CdpError>> {
    let mark = format!("about:blank#client-{number}");
    let open_session = async {
        let mut browser = Cdp::connect(&format!("ws://{gateway}/chromium")).await?;
        let before = browser.pages().await?;
        browser.call("Target.createTarget", json!({ "url": mark })).await?;
        tokio::time::sleep(hold).await;
        let after = browser.pages().await?;
        Ok::<_, CdpError>([before, after].concat())
    };
    match open_session.await {
        Ok(pages) => {
            let other = pages.iter().find(|page| page.contains("#client-") && **page != mark);
            ensure!(other.is_none(), "client {number} found {other:?} in its browser");
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Waits until no session is left, and returns the time since `last`.
async fn until_free(client: &Client, last: Instant) -> Result<Duration> {
    let fleet = client.store();
    loop {
        fleet.reap(Some(WorkerDefaults::default())).await?;
        let sessions =
            fleet.list_sessions(ListSessionsParams { worker: None, cursor: None, limit: 10 }).await?;
        let members =
            fleet.list_workers(ListWorkersParams { kind: None, cursor: None, limit: 1000 }).await?.items;
        let active = members.iter().map(|info: &WorkerInfo| info.active).sum::<u32>();
        if sessions.items.is_empty() && active == 0 {
            return Ok(last.elapsed());
        }
        let late = last.elapsed() > LEASE * 5;
        ensure!(!late, "{} sessions and {active} active leases are left", sessions.items.len());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Processes whose command line contains `directory`.
fn processes_in(directory: &Path) -> Result<Vec<String>> {
    let mark = directory.to_str().context("the directory's name is not UTF-8")?;
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().filter(|name| name.parse::<u32>().is_ok() && **name != own) else {
            continue;
        };
        // The process may end meanwhile.
        let Ok(command_line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        let command_line = String::from_utf8_lossy(&command_line).replace('\0', " ");
        if command_line.contains(mark) {
            found.push(format!("{pid} {}", command_line.chars().take(80).collect::<String>()));
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(directory)?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect())
}

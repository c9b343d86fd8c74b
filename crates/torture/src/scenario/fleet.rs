//! Gateways and agents are killed while clients have sessions open. The browsers themselves say whether anybody was given
//! one that another had; afterwards there is no session without a client, no process, and no directory.

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

use crate::harbour::{Hand, Post};
use crate::stage::{PATIENCE, Stage};

/// How long sessions are leased here.
const LEASE: Duration = Duration::from_secs(2);

/// How many browsers an agent has ready, and at most.
const BROWSERS: (usize, usize) = (1, 3);

/// How often to look.
const GLANCE: Duration = Duration::from_millis(100);

/// What came of it.
#[derive(Debug, Default)]
pub struct Reckoning {
    /// How many processes were killed.
    pub kills: usize,
    /// How many sessions went well from beginning to end.
    pub whole: usize,
    /// How many were cut off, or never came to be.
    pub cut: usize,
    /// How long after the last kill no session was left.
    pub freed: Duration,
}

impl fmt::Display for Reckoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, whole, cut, freed } = self;
        write!(
            f,
            "fleet: {kills} gateways and agents killed, {whole} sessions whole and {cut} cut, nobody met another in a \
             browser; all sessions gone {freed:.1?} after the last kill, no process and no directory left"
        )
    }
}

/// Two gateways, two agents, and where they are.
struct Harbour<'a> {
    stage: &'a Stage,
    directory: PathBuf,
    addresses: [SocketAddr; 2],
    hands: Vec<Hand>,
}

/// What clients have seen.
#[derive(Debug, Default)]
struct Seen {
    over: AtomicBool,
    numbers: AtomicUsize,
    whole: AtomicUsize,
    cut: AtomicUsize,
}

/// Kills so many processes while clients come and go.
pub async fn run(stage: &Stage, seed: u64, kills: usize) -> Result<Reckoning> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut harbour = Harbour::open(stage)?;
    let (seen, mut clients) = (Arc::new(Seen::default()), JoinSet::new());
    for number in 0..4 {
        let address = harbour.addresses[number % 2];
        clients.spawn(come_and_go(address, seen.clone(), seed.wrapping_add(number as u64)));
    }
    for kill in 1..=kills {
        wait_for_sessions(&seen, kill, &mut clients).await?;
        harbour.replace(dice.usize(..harbour.hands.len()))?;
    }
    seen.over.store(true, Ordering::Relaxed);
    let last = Instant::now();
    for gateway in &mut harbour.hands[..2] {
        gateway.kill()?;
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let freed = until_free(&stage.client, last).await?;
    harbour.close().await?;
    let [whole, cut] = [&seen.whole, &seen.cut].map(|count| count.load(Ordering::Relaxed));
    Ok(Reckoning { kills, whole, cut, freed })
}

/// Every kill has its sessions: without any open it would show nothing.
async fn wait_for_sessions(seen: &Seen, kills: usize, clients: &mut JoinSet<Result<()>>) -> Result<()> {
    let begun = Instant::now();
    while seen.whole.load(Ordering::Relaxed) < kills {
        if let Some(ended) = clients.try_join_next() {
            ended??;
        }
        ensure!(begun.elapsed() < PATIENCE, "no session comes to its end: {seen:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

impl<'a> Harbour<'a> {
    fn open(stage: &'a Stage) -> Result<Self> {
        let directory = stage.beside("browsers");
        std::fs::create_dir(&directory)?;
        let free = || anyhow::Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?);
        let mut harbour = Self { stage, directory, addresses: [free()?, free()?], hands: Vec::new() };
        for place in 0..4 {
            let hand = harbour.start(place)?;
            harbour.hands.push(hand);
        }
        Ok(harbour)
    }

    fn start(&self, place: usize) -> Result<Hand> {
        let store = self.stage.place().url();
        let post = match self.addresses.get(place) {
            Some(listen) => Post::Gateway { store, listen: *listen, lease_ms: LEASE.as_millis() as u64 },
            None => Post::Agent { store, directory: self.directory.clone(), browsers: BROWSERS },
        };
        Hand::start(self.stage.program(), &post)
    }

    /// Kills one and puts another in its place.
    fn replace(&mut self, place: usize) -> Result<()> {
        self.hands[place].kill()?;
        self.hands[place] = self.start(place)?;
        Ok(())
    }

    /// Ends the agents in order. What those that were killed have left must be gone by itself.
    async fn close(self) -> Result<()> {
        for hand in self.hands {
            hand.dismiss()?;
        }
        let begun = Instant::now();
        loop {
            let (processes, directories) = (processes_in(&self.directory)?, entries(&self.directory)?);
            if processes.is_empty() && directories.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE / 4 {
                bail!("left behind: processes {processes:?}, directories {directories:?}");
            }
            tokio::time::sleep(GLANCE).await;
        }
    }
}

/// A client that opens sessions until it is over. What fails because somebody was killed is counted; whoever meets
/// another's page in its browser fails for good.
async fn come_and_go(gateway: SocketAddr, seen: Arc<Seen>, seed: u64) -> Result<()> {
    let mut dice = fastrand::Rng::with_seed(seed);
    while !seen.over.load(Ordering::Relaxed) {
        let number = seen.numbers.fetch_add(1, Ordering::Relaxed);
        match visit(gateway, number, Duration::from_millis(dice.u64(..200))).await? {
            Ok(()) => seen.whole.fetch_add(1, Ordering::Relaxed),
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                seen.cut.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
    Ok(())
}

/// One session: marks the browser with a page of its own, and looks twice whether there is another's.
async fn visit(gateway: SocketAddr, number: usize, stay: Duration) -> Result<Result<(), CdpError>> {
    let mark = format!("about:blank#client-{number}");
    let visit = async {
        let mut browser = Cdp::connect(&format!("ws://{gateway}/chromium")).await?;
        let before = browser.pages().await?;
        browser.call("Target.createTarget", json!({ "url": mark })).await?;
        tokio::time::sleep(stay).await;
        let after = browser.pages().await?;
        Ok::<_, CdpError>([before, after].concat())
    };
    match visit.await {
        Ok(pages) => {
            let other = pages.iter().find(|page| page.contains("#client-") && **page != mark);
            ensure!(other.is_none(), "client {number} met {other:?} in its browser");
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// How long after `last` nobody had a session any more.
async fn until_free(client: &Client, last: Instant) -> Result<Duration> {
    let fleet = client.store().fleet();
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
        ensure!(!late, "{} sessions and {active} places are still taken", sessions.items.len());
        tokio::time::sleep(GLANCE).await;
    }
}

/// Processes that were told to use a place in `directory`.
fn processes_in(directory: &Path) -> Result<Vec<String>> {
    let mark = directory.to_str().context("a directory with a strange name")?;
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().filter(|name| name.parse::<u32>().is_ok() && **name != own) else {
            continue;
        };
        // It may end while we look.
        let Ok(words) = std::fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        if words.contains(mark) {
            found.push(format!("{pid} {}", words.chars().take(80).collect::<String>()));
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(directory)?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect())
}

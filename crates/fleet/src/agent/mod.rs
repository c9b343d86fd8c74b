//! The agent: starts browsers on one machine, looks after them, and enters them into the fleet.
//!
//! Every browser has a process group and a directory of its own, and nothing is left of either, however the browser or
//! the agent dies. Clients are given one of two things:
//!
//! - a **browser of their own** ([`Agent::spare`]): it was started before they came, and ends with their session. It is
//!   a member of the fleet itself, so nothing stands between it and the gateway;
//! - a **Playwright server** ([`Agent::playwright`]), one for each installed minor version, that several share.
//!
//! ```no_run
//! use tidemill_core::Mill;
//! use tidemill_fleet::agent::{Agent, Engine};
//!
//! # async fn example(client: Mill) -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::new(&client).engine(Engine::HeadlessShell).spare(2).most(10);
//! agent.run_until(std::future::pending::<()>()).await?;
//! # Ok(())
//! # }
//! ```

mod door;
mod engine;
mod environment;
mod error;
mod find;
mod firefox;
mod handover;
mod health;
mod keeper;
mod line;
mod place;
mod plan;
mod playwright;
mod process;
mod pulse;
mod recipe;
mod sidecar;
mod station;
mod tended;
mod trip;
mod warden;
mod watch;
mod words;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::{Capacity, Offer};
use tidemill_core::{Client, Store};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use engine::Engine;
pub use error::AgentError;

use door::Door;
use keeper::Keeper;
use line::Line;
use place::Place;
use plan::Wanted;
use recipe::{Recipe, What};
use sidecar::Sidecar;
use station::Station;

/// An agent: which browsers it keeps, how many, and how.
#[derive(Debug)]
#[must_use = "an agent does nothing before `.run_until(…).await`"]
pub struct Agent {
    store: Arc<dyn Store>,
    engine: Engine,
    binary: Option<PathBuf>,
    args: Vec<String>,
    spare: usize,
    most: usize,
    playwright: Vec<PathBuf>,
    room: Capacity,
    grace: Duration,
    start_within: Duration,
    directory: PathBuf,
    listen: Option<(SocketAddr, String)>,
}

impl Agent {
    /// An agent for the fleet in the store of `client`: one spare browser, and eight in all.
    pub fn new(client: &Client) -> Self {
        Self {
            store: client.store().clone(),
            engine: Engine::HeadlessShell,
            binary: None,
            args: Vec::new(),
            spare: 1,
            most: 8,
            playwright: Vec::new(),
            room: Capacity { concurrent: 5, lifetime: 50 },
            grace: Duration::from_secs(30),
            start_within: Duration::from_secs(30),
            directory: std::env::temp_dir(),
            listen: None,
        }
    }

    /// Which browser (the headless shell of Chromium unless set).
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Where its program is (where such programs usually are, unless set).
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// Starts every browser with this flag as well.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Keeps this many browsers ready, each for one session (1 unless set). With 0 there are only Playwright servers.
    pub fn spare(mut self, browsers: usize) -> Self {
        self.spare = browsers;
        self
    }

    /// Runs at most this many browsers for one session each at once, in use and spare ones together (8 unless set). So many
    /// Playwright servers of a version, too, if each of them is for one session or for few ([`room`](Self::room)).
    pub fn most(mut self, browsers: usize) -> Self {
        self.most = browsers;
        self
    }

    /// Runs a server for each minor version of `playwright-core` in this directory, which is that of a package, a
    /// `node_modules`, or one that has a `node_modules`. May be called for several.
    pub fn playwright(mut self, directory: impl Into<PathBuf>) -> Self {
        self.playwright.push(directory.into());
        self
    }

    /// How much a Playwright server takes on (5 sessions at once and 50 in all, unless set). Before it has had them all it is
    /// replaced by another, and ends when its sessions do.
    pub fn room(mut self, room: Capacity) -> Self {
        self.room = room;
        self
    }

    /// Lets sessions go on for this long when the agent is stopped (30 s unless set).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Gives a browser this long to start (30 s unless set).
    pub fn start_within(mut self, limit: Duration) -> Self {
        self.start_within = limit;
        self
    }

    /// Where the browsers have their directories (in the system's place for temporary files unless set).
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Lets gateways on other machines in at `address`, which they reach as `advertise` (a host and a port). Unless this
    /// is set only gateways on this machine reach its browsers.
    pub fn listen(mut self, address: SocketAddr, advertise: impl Into<String>) -> Self {
        self.listen = Some((address, advertise.into()));
        self
    }

    /// Checks the description, and finds the browsers.
    pub fn build(self) -> Result<Ready, AgentError> {
        let lines = self.lines()?;
        let mut station = Station::new(self.store, self.grace, self.start_within);
        let listen = self.listen.as_ref().map(|(address, _)| *address);
        if let Some((_, advertise)) = self.listen {
            station.door = Some(Door::new(checked(advertise)?));
        }
        Ok(Ready { station, lines, directory: self.directory, listen })
    }

    /// Runs until `until` completes, then lets sessions end, and closes everything. Whoever drops this ends everything at
    /// once.
    pub async fn run_until(self, until: impl Future) -> Result<(), AgentError> {
        self.build()?.run_until(until).await
    }

    fn lines(&self) -> Result<Vec<Line>, AgentError> {
        if self.spare == 0 && self.playwright.is_empty() {
            return Err(AgentError::Options(
                "there is nothing to keep: no spare browser, and no Playwright".into(),
            ));
        }
        if self.spare > self.most {
            let (spare, most) = (self.spare, self.most);
            return Err(AgentError::Options(format!("{spare} spare browsers are more than {most} in all")));
        }
        if self.room.concurrent == 0 {
            return Err(AgentError::Options("a server needs room for at least one session".into()));
        }
        let binary = self.engine.find(self.binary.as_deref())?;
        let mut lines = self.servers(&binary)?;
        if self.spare > 0 {
            let recipe = self.recipe(What::Browser, &binary, self.engine.offer()?)?;
            let room = Capacity { concurrent: 1, lifetime: 1 };
            lines.push(Line::new(recipe, Wanted { spare: self.spare, most: self.most, beyond: 0, room }));
        }
        Ok(lines)
    }

    fn servers(&self, binary: &std::path::Path) -> Result<Vec<Line>, AgentError> {
        if self.playwright.is_empty() {
            return Ok(Vec::new());
        }
        if !self.engine.is_chromium() {
            let engine = self.engine.name();
            return Err(AgentError::Options(format!(
                "Playwright's server runs on Chromium only, not on {engine}"
            )));
        }
        let found = playwright::find(&self.playwright)?;
        let node = find::on_path("node").ok_or(AgentError::NoNode)?;
        let line = |(version, package): (playwright::Version, PathBuf)| {
            let offer = Offer::new(&format!("playwright-{}.{}", version.major, version.minor))?;
            let sidecar = Sidecar { node: node.clone(), package, version };
            let recipe = self.recipe(What::Playwright(sidecar), binary, offer)?;
            Ok(Line::new(recipe, Wanted::server(self.room, self.most)))
        };
        found.into_iter().map(line).collect()
    }

    fn recipe(&self, what: What, binary: &std::path::Path, offer: Offer) -> Result<Recipe, AgentError> {
        let (engine, args, kind) = (self.engine.clone(), self.args.clone(), self.engine.kind()?);
        Ok(Recipe { what, engine, binary: binary.to_owned(), args, kind, offer })
    }
}

/// A host and a port, and nothing else.
fn checked(advertise: String) -> Result<String, AgentError> {
    let url = url::Url::parse(&format!("ws://{advertise}/"));
    let is_one = url.is_ok_and(|url| {
        url.port_or_known_default() != Some(0) && url.path() == "/" && url.username().is_empty()
    });
    if is_one && advertise.contains(':') {
        return Ok(advertise);
    }
    Err(AgentError::Options(format!("{advertise:?} is no host and port, such as browsers-1:7719")))
}

/// An agent that has found everything it needs.
#[derive(Debug)]
#[must_use = "an agent does nothing before `.run_until(…).await`"]
pub struct Ready {
    station: Station,
    lines: Vec<Line>,
    directory: PathBuf,
    listen: Option<SocketAddr>,
}

impl Ready {
    /// What it will keep, in words.
    pub fn keeps(&self) -> Vec<String> {
        self.lines.iter().map(|line| format!("{} ({})", line.recipe.name(), line.recipe.offer)).collect()
    }

    /// Opens the door, if there is one.
    async fn open(&self) -> Result<JoinSet<()>, AgentError> {
        let mut guests = JoinSet::new();
        if let Some((address, door)) = self.listen.zip(self.station.door.clone()) {
            let listener = TcpListener::bind(address).await;
            let listener = listener.map_err(AgentError::io(format!("listen at {address}")))?;
            guests.spawn(door.run(listener));
        }
        Ok(guests)
    }

    /// Runs until `until` completes, then lets sessions end, and closes everything. Whoever drops this ends everything at
    /// once.
    pub async fn run_until(self, until: impl Future) -> Result<(), AgentError> {
        let at = self.directory.display().to_string();
        let place =
            Place::new(&self.directory).map_err(AgentError::io(format!("make a directory in {at}")))?;
        let place = Arc::new(place);
        // Whoever is being let through when this ends is let go with it.
        let _guests = self.open().await?;
        Keeper::new(self.station, place.clone(), self.lines).run(until).await?;
        let cleared = tokio::task::spawn_blocking(move || place.clear()).await;
        let cleared = cleared.map_err(|error| AgentError::Broken(error.to_string()))?;
        cleared.map_err(AgentError::io(format!("remove the directory in {at}")))
    }
}

//! The agent: runs browsers on one machine and registers them in the fleet.
//!
//! Every browser has its own process group and directory. Nothing is left of either, however the
//! browser or the agent dies. Clients get one of two things:
//!
//! - a **browser of their own** ([`Agent::spare`]): it is started in advance and ends with their
//!   session. The browser itself is the worker in the fleet, so nothing stands between it and the
//!   gateway;
//! - a **Playwright server** ([`Agent::playwright`]): one for each installed minor version, shared by
//!   several clients.
//!
//! ```no_run
//! use tidemill_core::Client;
//! use tidemill_fleet::agent::{Agent, Engine};
//!
//! # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::new(&client).engine(Engine::HeadlessShell).spare(2).most(10);
//! agent.run_until(std::future::pending::<()>()).await?;
//! # Ok(())
//! # }
//! ```

mod context;
mod engine;
mod environment;
mod error;
mod find;
mod firefox;
mod handover;
mod health;
mod heartbeat;
mod ingress;
mod launch;
mod managed_browser;
mod orphan_killer;
mod output_log;
mod plan;
mod playwright;
mod pool;
mod process;
mod sidecar;
mod store_sync;
mod supervisor;
mod temp_dirs;
mod watch;

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

use context::AgentContext;
use ingress::Ingress;
use launch::{LaunchSpec, LaunchTarget};
use plan::PoolTarget;
use pool::WorkerPool;
use sidecar::Sidecar;
use supervisor::Supervisor;
use temp_dirs::TempDirs;

/// A browser agent's options.
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
    capacity: Capacity,
    grace: Duration,
    start_time: Duration,
    directory: PathBuf,
    listen: Option<(SocketAddr, String)>,
}

impl Agent {
    /// An agent for the fleet in the client's store. It keeps one spare browser and at most eight
    /// in all.
    pub fn new(client: &Client) -> Self {
        Self {
            store: client.store().clone(),
            engine: Engine::HeadlessShell,
            binary: None,
            args: Vec::new(),
            spare: 1,
            most: 8,
            playwright: Vec::new(),
            capacity: Capacity { concurrent: 5, lifetime: 50 },
            grace: Duration::from_secs(30),
            start_time: Duration::from_secs(30),
            directory: std::env::temp_dir(),
            listen: None,
        }
    }

    /// The browser to run. Default: Chromium's headless shell.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// The browser's program. Default: the usual locations of the engine.
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// An additional flag for every browser.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// How many browsers to keep ready, each for one session. Default: 1. With 0, the agent runs
    /// only Playwright servers.
    pub fn spare(mut self, browsers: usize) -> Self {
        self.spare = browsers;
        self
    }

    /// The most single-session browsers to run at once, spare and in use together. Default: 8. It
    /// also bounds the Playwright servers of a version whose [`capacity`](Self::capacity) lets
    /// their first session replace them.
    pub fn most(mut self, browsers: usize) -> Self {
        self.most = browsers;
        self
    }

    /// Runs a server for each minor version of `playwright-core` in this directory. The directory
    /// is a package, a `node_modules`, or the parent of a `node_modules`. May be called several
    /// times.
    pub fn playwright(mut self, directory: impl Into<PathBuf>) -> Self {
        self.playwright.push(directory.into());
        self
    }

    /// How many sessions a Playwright server takes. Default: 5 at once and 50 in all. A successor
    /// starts before the server is used up; the server closes when its last session ends.
    pub fn capacity(mut self, capacity: Capacity) -> Self {
        self.capacity = capacity;
        self
    }

    /// How long sessions may continue when the agent stops. Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long a browser may take to start. Default: 30 s.
    pub fn start_time(mut self, start_time: Duration) -> Self {
        self.start_time = start_time;
        self
    }

    /// The parent of the browsers' directories. Default: the system's temporary directory.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Accepts gateways of other machines at `address`; they connect to `advertise` (host and
    /// port). Without it, only gateways on this machine reach the browsers.
    pub fn listen(mut self, address: SocketAddr, advertise: impl Into<String>) -> Self {
        self.listen = Some((address, advertise.into()));
        self
    }

    /// Checks the options and finds the browsers' programs.
    pub fn build(self) -> Result<ReadyAgent, AgentError> {
        let pools = self.pools()?;
        let mut context = AgentContext::new(self.store, self.grace, self.start_time);
        let listen = self.listen.as_ref().map(|(address, _)| *address);
        if let Some((_, advertise)) = self.listen {
            context.ingress = Some(Ingress::new(check_advertise(advertise)?));
        }
        Ok(ReadyAgent { context, pools, directory: self.directory, listen })
    }

    /// Runs until `until` completes, then lets sessions end, and closes everything.
    ///
    /// # Errors
    /// [`AgentError`], if a setting is not valid or the agent cannot begin or continue.
    ///
    /// # Cancel safety
    /// Dropping the future kills all browsers at once.
    pub async fn run_until(self, until: impl Future) -> Result<(), AgentError> {
        self.build()?.run_until(until).await
    }

    fn pools(&self) -> Result<Vec<WorkerPool>, AgentError> {
        if self.spare == 0 && self.playwright.is_empty() {
            return Err(AgentError::Options(
                "there is nothing to keep: no spare browser, and no Playwright".into(),
            ));
        }
        if self.spare > self.most {
            let (spare, most) = (self.spare, self.most);
            return Err(AgentError::Options(format!("{spare} spare browsers are more than {most} in all")));
        }
        if self.capacity.concurrent == 0 {
            return Err(AgentError::Options("a server needs room for at least one session".into()));
        }
        let binary = self.engine.find_binary(self.binary.as_deref())?;
        let mut pools = self.server_pools(&binary)?;
        if self.spare > 0 {
            let launch = self.launch_spec(LaunchTarget::Browser, &binary, self.engine.offer()?)?;
            let capacity = Capacity { concurrent: 1, lifetime: 1 };
            pools.push(WorkerPool::new(
                launch,
                PoolTarget { spare: self.spare, max: self.most, max_extra_draining: 0, capacity },
            ));
        }
        Ok(pools)
    }

    fn server_pools(&self, binary: &std::path::Path) -> Result<Vec<WorkerPool>, AgentError> {
        if self.playwright.is_empty() {
            return Ok(Vec::new());
        }
        if !self.engine.is_chromium() {
            let engine = self.engine.name();
            return Err(AgentError::Options(format!(
                "Playwright's server runs on Chromium only, not on {engine}"
            )));
        }
        let versions = playwright::find_versions(&self.playwright)?;
        let node = find::find_on_path("node").ok_or(AgentError::NoNode)?;
        let pool = |(version, package): (playwright::PlaywrightVersion, PathBuf)| {
            let offer = Offer::new(&format!("playwright-{}.{}", version.major, version.minor))?;
            let sidecar = Sidecar { node: node.clone(), package, version };
            let launch = self.launch_spec(LaunchTarget::Playwright(sidecar), binary, offer)?;
            Ok(WorkerPool::new(launch, PoolTarget::server(self.capacity, self.most)))
        };
        versions.into_iter().map(pool).collect()
    }

    fn launch_spec(
        &self,
        target: LaunchTarget,
        binary: &std::path::Path,
        offer: Offer,
    ) -> Result<LaunchSpec, AgentError> {
        let (engine, args, kind) = (self.engine.clone(), self.args.clone(), self.engine.kind()?);
        Ok(LaunchSpec { target, engine, binary: binary.to_owned(), args, kind, offer })
    }
}

/// Checks that it is a host and a port, and nothing else.
fn check_advertise(advertise: String) -> Result<String, AgentError> {
    let url = url::Url::parse(&format!("ws://{advertise}/"));
    let is_host_and_port = url.is_ok_and(|url| {
        url.port_or_known_default() != Some(0) && url.path() == "/" && url.username().is_empty()
    });
    if is_host_and_port && advertise.contains(':') {
        return Ok(advertise);
    }
    Err(AgentError::Options(format!("{advertise:?} is no host and port, such as browsers-1:7719")))
}

/// An agent whose options are checked and whose programs are found.
#[derive(Debug)]
#[must_use = "an agent does nothing before `.run_until(…).await`"]
pub struct ReadyAgent {
    context: AgentContext,
    pools: Vec<WorkerPool>,
    directory: PathBuf,
    listen: Option<SocketAddr>,
}

impl ReadyAgent {
    /// A description of each pool, for the log.
    pub fn describe_pools(&self) -> Vec<String> {
        self.pools.iter().map(|pool| format!("{} ({})", pool.launch.name(), pool.launch.offer)).collect()
    }

    /// Starts the ingress, if there is one.
    async fn start_ingress(&self) -> Result<JoinSet<()>, AgentError> {
        let mut connections = JoinSet::new();
        if let Some((address, ingress)) = self.listen.zip(self.context.ingress.clone()) {
            let listener = TcpListener::bind(address).await;
            let listener = listener.map_err(AgentError::io(format!("listen at {address}")))?;
            connections.spawn(ingress.run(listener));
        }
        Ok(connections)
    }

    /// Runs until `until` completes, then lets sessions end, and closes everything.
    ///
    /// # Errors
    /// [`AgentError`], if a setting is not valid or the agent cannot begin or continue.
    ///
    /// # Cancel safety
    /// Dropping the future kills all browsers at once.
    pub async fn run_until(self, until: impl Future) -> Result<(), AgentError> {
        let at = self.directory.display().to_string();
        let temp_dirs =
            TempDirs::new(&self.directory).map_err(AgentError::io(format!("make a directory in {at}")))?;
        let temp_dirs = Arc::new(temp_dirs);
        // Dropping it ends all connections through the ingress.
        let _guests = self.start_ingress().await?;
        Supervisor::new(self.context, temp_dirs.clone(), self.pools).run(until).await?;
        let cleared = tokio::task::spawn_blocking(move || temp_dirs.remove_all()).await;
        let cleared = cleared.map_err(|error| AgentError::TaskFailed(error.to_string()))?;
        cleared.map_err(AgentError::io(format!("remove the directory in {at}")))
    }
}

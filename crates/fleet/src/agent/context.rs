//! The agent's context: its store, its limits, and the names of its workers.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::{WorkerKey, WorkerName};
use tidemill_core::name::InvalidName;
use tidemill_core::{HolderId, Store};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ingress::{Ingress, IngressPath};
use super::launch::{StartError, StartedBrowser};
use super::managed_browser::{BrowserDetail, ManagedBrowser, SessionCounts};
use super::plan::DrainPhase;
use super::pool::WorkerPool;

/// What the agent's parts share.
#[derive(Debug)]
pub(super) struct AgentContext {
    pub(super) store: Arc<dyn Store>,
    /// How long sessions may continue when the agent stops.
    pub(super) grace: Duration,
    /// How long a browser may take to start.
    pub(super) start_time: Duration,
    /// For gateways on other machines.
    pub(super) ingress: Option<Arc<Ingress>>,
    host: String,
    /// Distinguishes this agent from an earlier one with the same host and process id.
    boot_id: String,
    /// This agent's id, in the form of a job worker's.
    agent_id: HolderId,
}

impl AgentContext {
    pub(super) fn new(store: Arc<dyn Store>, grace: Duration, start_time: Duration) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let agent_id = HolderId::from_process(&host, std::process::id(), 0);
        let boot_id = agent_id.as_str().rsplit(':').next().unwrap_or_default().to_owned();
        Self { store, grace, start_time, ingress: None, host, boot_id, agent_id }
    }

    /// Describes a browser that has started.
    pub(super) fn managed_browser(
        &self,
        pool: &WorkerPool,
        index: usize,
        number: u64,
        started: &StartedBrowser,
    ) -> Result<ManagedBrowser, StartError> {
        let launch = &pool.launch;
        let id = WorkerKey { kind: launch.kind.clone(), name: self.worker_name(number)? };
        let ingress_path =
            self.ingress.as_ref().map(|ingress| ingress.add_path(&started.endpoint)).transpose()?;
        Ok(ManagedBrowser {
            id,
            offer: launch.offer.clone(),
            endpoint: ingress_path.as_ref().map_or_else(|| started.endpoint.clone(), IngressPath::endpoint),
            _ingress_path: ingress_path,
            capacity: pool.target.capacity,
            detail: self.browser_detail(pool, started),
            pool: index,
            join_sent: false,
            joined: false,
            phase: DrainPhase::Serving,
            counts: SessionCounts::default(),
            started_at: Instant::now(),
            close: CancellationToken::new(),
        })
    }

    /// `{host}:{pid}:{number}:{boot}`, in the form of a job worker's id.
    fn worker_name(&self, number: u64) -> Result<WorkerName, InvalidName> {
        let host: String = self.host.chars().filter(char::is_ascii_graphic).take(128).collect();
        WorkerName::new(&format!("{host}:{}:{number}:{}", std::process::id(), self.boot_id))
    }

    fn browser_detail(&self, pool: &WorkerPool, started: &StartedBrowser) -> BrowserDetail {
        BrowserDetail {
            host: self.host.clone(),
            agent: self.agent_id.to_string(),
            pid: started.process.pid(),
            engine: pool.launch.engine.name(),
            version: started.version.clone(),
            started_at: self.store.clock().now(),
            crashes: pool.crashes,
        }
    }
}

//! What an agent is to the fleet: its name, its store, and how its browsers are called.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::{WorkerKey, WorkerName};
use tidemill_core::name::InvalidName;
use tidemill_core::{HolderId, Store};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::door::{Door, Path};
use super::line::Line;
use super::plan::Leaving;
use super::recipe::{NotStarted, Started};
use super::tended::{About, Tally, Tended};

/// An agent's place in the fleet.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) store: Arc<dyn Store>,
    /// How long sessions may go on when the agent ends.
    pub(super) grace: Duration,
    /// How long a browser may take to start.
    pub(super) start_within: Duration,
    /// For gateways on other machines.
    pub(super) door: Option<Arc<Door>>,
    host: String,
    /// Tells this agent from one that had the same name and number before.
    boot: String,
    /// This agent, as a process that runs jobs would be called.
    agent: HolderId,
}

impl Station {
    pub(super) fn new(store: Arc<dyn Store>, grace: Duration, start_within: Duration) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let agent = HolderId::from_process(&host, std::process::id(), 0);
        let boot = agent.as_str().rsplit(':').next().unwrap_or_default().to_owned();
        Self { store, grace, start_within, door: None, host, boot, agent }
    }

    /// Describes one that has started.
    pub(super) fn tended(
        &self,
        line: &Line,
        (number, index): (u64, usize),
        started: &Started,
    ) -> Result<Tended, NotStarted> {
        let recipe = &line.recipe;
        let id = WorkerKey { kind: recipe.kind.clone(), name: self.name(number)? };
        let path = self.door.as_ref().map(|door| door.open(&started.endpoint)).transpose()?;
        Ok(Tended {
            id,
            offer: recipe.offer.clone(),
            endpoint: path.as_ref().map_or_else(|| started.endpoint.clone(), Path::endpoint),
            _path: path,
            room: line.wanted.room,
            about: self.about(line, started),
            line: index,
            asked: false,
            joined: false,
            leaving: Leaving::No,
            tally: Tally::default(),
            since: Instant::now(),
            close: CancellationToken::new(),
        })
    }

    /// `{host}:{pid}:{number}:{boot}`, as job workers are called.
    fn name(&self, number: u64) -> Result<WorkerName, InvalidName> {
        let host: String = self.host.chars().filter(char::is_ascii_graphic).take(128).collect();
        WorkerName::new(&format!("{host}:{}:{number}:{}", std::process::id(), self.boot))
    }

    fn about(&self, line: &Line, started: &Started) -> About {
        About {
            host: self.host.clone(),
            agent: self.agent.to_string(),
            pid: started.process.id(),
            engine: line.recipe.engine.name(),
            version: started.version.clone(),
            started_at: self.store.clock().now(),
            crashes: line.crashes,
        }
    }
}

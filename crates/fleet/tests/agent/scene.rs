//! A store, an agent, and what a gateway would do with its browsers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::{Offer, SessionId, WorkerDefaults, WorkerKind};
use tidemill_core::store::Fleet;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased, ListWorkersParams, ReleaseParams, WorkerInfo};
use tidemill_core::{Client, HolderId};
use tidemill_fleet::agent::{Agent, AgentError};
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// No test takes that long, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// An agent under way.
type Running = JoinHandle<Result<(), AgentError>>;

/// One agent on a store of its own.
pub(crate) struct Scene {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) client: Client,
    pub(crate) holder: HolderId,
    agent: Option<(oneshot::Sender<()>, Running)>,
}

impl Scene {
    /// A store without an agent.
    pub(crate) async fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let client = open(&directory.path().join("fleet.db")).await;
        Self::of(directory, client)
    }

    fn of(directory: tempfile::TempDir, client: Client) -> Self {
        Self { directory, client, holder: HolderId::from_process("gateway", 1, 0), agent: None }
    }

    /// A store with an agent as `describe` wants it.
    pub(crate) async fn with(describe: impl FnOnce(Agent) -> Agent) -> Self {
        Self::empty().await.run(describe)
    }

    /// An agent as `describe` wants it on this store.
    pub(crate) fn on(client: Client, describe: impl FnOnce(Agent) -> Agent) -> Self {
        Self::of(tempfile::tempdir().unwrap(), client).run(describe)
    }

    fn run(mut self, describe: impl FnOnce(Agent) -> Agent) -> Self {
        let agent = describe(Agent::new(&self.client).directory(self.directory.path()));
        let (stop, stopped) = oneshot::channel();
        self.agent = Some((stop, tokio::spawn(agent.run_until(stopped))));
        self
    }

    pub(crate) fn fleet(&self) -> &dyn Fleet {
        &**self.client.store()
    }

    pub(crate) async fn members(&self) -> Vec<WorkerInfo> {
        self.look().await.unwrap()
    }

    async fn look(&self) -> Result<Vec<WorkerInfo>, tidemill_core::Error> {
        let list = ListWorkersParams { kind: None, cursor: None, limit: 100 };
        Ok(self.fleet().list_workers(list).await?.items)
    }

    /// Waits until the members are as they should be.
    pub(crate) async fn see(&self, what: &str, rule: impl Fn(&[WorkerInfo]) -> bool) -> Vec<WorkerInfo> {
        let seen = async {
            loop {
                // A store that is away is asked again.
                if let Ok(members) = self.look().await
                    && rule(&members)
                {
                    return members;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        match timeout(PATIENCE, seen).await {
            Ok(members) => members,
            Err(_) => panic!("never saw {what}; there is {:#?}", self.members().await),
        }
    }

    /// Leases one, as a gateway does.
    pub(crate) async fn lease(&self, kind: &str, offer: &str) -> Option<(SessionId, Grant)> {
        self.lease_for(kind, offer, Duration::from_secs(300)).await
    }

    /// Leases one for so long.
    pub(crate) async fn lease_for(
        &self,
        kind: &str,
        offer: &str,
        ttl: Duration,
    ) -> Option<(SessionId, Grant)> {
        let session = SessionId::generate();
        let lease = LeaseParams {
            session: session.clone(),
            kind: WorkerKind::new(kind).unwrap(),
            offers: vec![Offer::new(offer).unwrap()],
            holder: self.holder.clone(),
            ttl,
            keep: Duration::ZERO,
            detail: "{}".into(),
            rejected: Vec::new(),
            wait: None,
            defaults: WorkerDefaults::default(),
        };
        match self.fleet().lease(&lease).await.unwrap() {
            Leased::Granted(grant) => Some((session, grant)),
            _ => None,
        }
    }

    pub(crate) async fn release(&self, session: SessionId) {
        let release = ReleaseParams { session, holder: self.holder.clone() };
        assert_eq!(self.fleet().release(&[release]).await.unwrap(), [true]);
    }

    /// Asks the agent to end.
    pub(crate) fn stop(&mut self) -> Running {
        let (stop, ended) = self.agent.take().unwrap();
        stop.send(()).unwrap();
        ended
    }

    /// Drops the agent on the spot.
    pub(crate) fn abort(&mut self) {
        let (_, agent) = self.agent.take().unwrap();
        agent.abort();
    }

    /// Ends the agent in order: nothing of it may be left.
    pub(crate) async fn end(mut self) {
        timeout(PATIENCE, self.stop()).await.unwrap().unwrap().unwrap();
        assert!(self.members().await.is_empty());
        self.assert_nothing_is_left();
    }

    /// No process and no directory.
    pub(crate) fn assert_nothing_is_left(&self) {
        assert!(crate::proc::living_off(self.directory.path()).is_empty());
        assert!(self.rooms().is_empty());
    }

    /// The directories of agents.
    pub(crate) fn rooms(&self) -> Vec<String> {
        let entries = self.directory.path().read_dir().unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("tidemill-browsers")).collect()
    }
}

pub(crate) async fn open(file: &Path) -> Client {
    Client::new(Arc::new(SqliteStore::open(SqliteOptions::file(file)).await.unwrap()))
}

/// The process that a member's detail names.
pub(crate) fn pid(member: &WorkerInfo) -> i32 {
    let detail: serde_json::Value = serde_json::from_slice(&member.worker.detail).unwrap();
    i32::try_from(detail["pid"].as_i64().unwrap()).unwrap()
}

/// Whether it has a place for a new client.
pub(crate) fn is_free(member: &WorkerInfo) -> bool {
    let is_available = member.worker.status == tidemill_core::store::fleet::WorkerStatus::Available;
    is_available && !member.drain_ordered && member.worker.capacity.is_free(member.active, member.lifetime)
}

/// Waits until `rule` holds of something that nobody announces.
pub(crate) async fn eventually(what: &str, rule: impl Fn() -> bool) {
    let holds = async {
        while !rule() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, holds).await.is_ok(), "never: {what}");
}

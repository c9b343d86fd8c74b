//! A store, a gateway to it, agents, and a page for clients to open.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tidemill_core::Client;
use tidemill_core::store::Fleet;
use tidemill_core::store::fleet::{
    ListSessionsParams, ListWorkersParams, SessionInfo, WorkerInfo, WorkerStatus,
};
use tidemill_fleet::agent::{Agent, AgentError};
use tidemill_fleet::gateway::Gateway;
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::client::PATIENCE;
use crate::proc::living_off;
use crate::site::Site;

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) site: Site,
    gateway: SocketAddr,
    directory: TempDir,
    stop_agent: CancellationToken,
    stop_gateway: CancellationToken,
    agent: JoinHandle<Result<(), AgentError>>,
    served: JoinHandle<()>,
}

impl World {
    /// A store in a file, and an agent as `describe` wants it.
    pub(crate) async fn with(describe: impl FnOnce(Agent) -> Agent) -> Self {
        Self::set_up(|gateway| gateway, describe).await
    }

    /// The same, with the gateway as `set_up` wants it.
    pub(crate) async fn set_up(
        set_up: impl FnOnce(Gateway) -> Gateway,
        describe: impl FnOnce(Agent) -> Agent,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::file(directory.path().join("fleet.db"))).await.unwrap();
        let client = Client::new(Arc::new(store));
        Self::on((client, directory), set_up, describe).await
    }

    /// On this store, with everything else below this directory.
    pub(crate) async fn on(
        (client, directory): (Client, TempDir),
        set_up: impl FnOnce(Gateway) -> Gateway,
        describe: impl FnOnce(Agent) -> Agent,
    ) -> Self {
        let (stop_agent, stop_gateway) = (CancellationToken::new(), CancellationToken::new());
        let agent = describe(Agent::new(&client).directory(directory.path()));
        let agent = tokio::spawn(agent.run_until(stop_agent.clone().cancelled_owned()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (gateway, stopped) = (set_up(Gateway::new(&client)), stop_gateway.clone());
        let served =
            tokio::spawn(async move { gateway.serve(listener, stopped.cancelled_owned()).await.unwrap() });
        let site = Site::open().await;
        Self { client, site, gateway: address, directory, stop_agent, stop_gateway, agent, served }
    }

    /// The gateway's address, for clients that speak WebSocket from the start.
    pub(crate) fn ws(&self, target: &str) -> String {
        format!("ws://{}{target}", self.gateway)
    }

    /// The same, for clients that ask by HTTP before.
    pub(crate) fn http(&self, target: &str) -> String {
        format!("http://{}{target}", self.gateway)
    }

    /// Asks the gateway something: the status, and what it says.
    pub(crate) async fn request(&self, method: &str, target: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.gateway).await.unwrap();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    pub(crate) fn fleet(&self) -> &dyn Fleet {
        &**self.client.store()
    }

    pub(crate) async fn members(&self) -> Vec<WorkerInfo> {
        let list = ListWorkersParams { kind: None, cursor: None, limit: 100 };
        self.fleet().list_workers(list).await.unwrap().items
    }

    pub(crate) async fn sessions(&self) -> Vec<SessionInfo> {
        let list = ListSessionsParams { worker: None, cursor: None, limit: 100 };
        self.fleet().list_sessions(list).await.unwrap().items
    }

    /// Waits for the session that its client gave this name.
    pub(crate) async fn session(&self, name: &str) -> SessionInfo {
        let is_it = |session: &SessionInfo| {
            let detail: Value = serde_json::from_slice(&session.detail).unwrap();
            session.connected && detail["name"] == name
        };
        let found = async || self.sessions().await.into_iter().find(is_it);
        eventually(&format!("the session {name}"), found).await
    }

    /// Waits until as many members take clients.
    pub(crate) async fn available(&self, count: usize) {
        let is_free = |one: &&WorkerInfo| one.worker.status == WorkerStatus::Available && one.active == 0;
        let found = async || (self.members().await.iter().filter(is_free).count() >= count).then_some(());
        eventually(&format!("{count} free browsers"), found).await;
    }

    /// Waits until nobody has a browser.
    pub(crate) async fn deserted(&self) {
        eventually("every session's end", async || self.sessions().await.is_empty().then_some(())).await;
    }

    /// Ends everything in order: nothing of it may be left.
    pub(crate) async fn end(self) {
        self.deserted().await;
        self.stop_agent.cancel();
        timeout(PATIENCE, self.agent).await.unwrap().unwrap().unwrap();
        self.stop_gateway.cancel();
        timeout(PATIENCE, self.served).await.unwrap().unwrap();
        let left = living_off(self.directory.path());
        assert!(left.is_empty(), "{left:?} live on");
    }
}

/// Waits until there is something to be found.
pub(crate) async fn eventually<T>(what: &str, found: impl AsyncFn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        sleep(std::time::Duration::from_millis(10)).await;
    }
}

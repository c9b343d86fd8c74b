//! A store in memory and a gateway to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tidemill_core::Client;
use tidemill_core::store::Fleet;
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo, WorkerInfo};
use tidemill_fleet::gateway::Gateway;
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::browser::Browser;
use crate::client::{Answer, BrowserClient, PATIENCE, request, request_with};

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) gateway: JoinHandle<()>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|gateway| gateway).await
    }

    /// A gateway that is set up so.
    pub(crate) async fn with(set_up: impl FnOnce(Gateway) -> Gateway) -> Self {
        let store = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
        Self::on(Client::new(Arc::new(store)), set_up).await
    }

    /// Another gateway to the same store.
    pub(crate) async fn on(client: Client, set_up: impl FnOnce(Gateway) -> Gateway) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let (gateway, stopped) = (set_up(Gateway::new(&client)), stop.clone());
        let gateway = tokio::spawn(async move {
            gateway.serve(listener, async move { stopped.cancelled().await }).await.unwrap();
        });
        Self { client, address, stop, gateway }
    }

    pub(crate) fn fleet(&self) -> &dyn Fleet {
        &**self.client.store()
    }

    pub(crate) async fn connect(&self, target: &str) -> BrowserClient {
        self.try_connect(target).await.unwrap()
    }

    pub(crate) async fn try_connect(&self, target: &str) -> Result<BrowserClient, Answer> {
        BrowserClient::connect(self.address, target, &[]).await
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        request(self.address, "GET", target, &[]).await
    }

    pub(crate) async fn delete(&self, target: &str) -> Answer {
        request(self.address, "DELETE", target, &[]).await
    }

    pub(crate) async fn post(&self, target: &str, body: &str) -> Answer {
        request_with(self.address, "POST", target, &[], body).await
    }

    pub(crate) async fn sessions(&self) -> Vec<SessionInfo> {
        let list = ListSessionsParams { worker: None, cursor: None, limit: 100 };
        self.fleet().list_sessions(list).await.unwrap().items
    }

    pub(crate) async fn info(&self, browser: &Browser) -> WorkerInfo {
        self.fleet().get_worker(&browser.member.id).await.unwrap().unwrap()
    }

    /// How many wait at all gateways.
    pub(crate) async fn waiting(&self) -> u32 {
        self.fleet().list_waiting().await.unwrap().iter().map(|line| line.waiting).sum()
    }

    /// Waits until no session is left in the store.
    pub(crate) async fn deserted(&self) {
        until("everything to be released", async || self.sessions().await.is_empty()).await;
    }

    /// Waits until as many sessions have a client.
    pub(crate) async fn connected(&self, count: usize) {
        until("sessions to be connected", async || {
            self.sessions().await.iter().filter(|session| session.connected).count() == count
        })
        .await;
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < PATIENCE, "{what} took longer than {PATIENCE:?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

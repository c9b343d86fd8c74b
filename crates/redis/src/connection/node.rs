//! One server: a shared connection that is opened on first use and after a failure. With Sentinels
//! it is the current master at the time of connecting.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, RedisError, Value};
use tidemill_core::Error;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::blocking::BlockingPool;
use super::no_response;
use super::replicated::ReplicatedPool;
use crate::error::{first_server_error, is_connection, not_connected};
use crate::options::RedisOptions;

/// Opening a connection must not take longer than a user waits for a clear error.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// No command of the shared connection takes this long on a healthy server. The driver's 500 ms are
/// too short for a server that is saving; without a timeout a call to an unreachable one never
/// returns.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// One server.
pub(crate) struct Node {
    locator: NodeLocator,
    address: String,
    shared: RwLock<Option<OpenConnection>>,
    /// The generation of the connection whose permissions were checked.
    checked_generation: AtomicU64,
    /// The caller that finds the connection broken opens the next one; the others wait here.
    opening: Mutex<()>,
    /// Connections for blocking reads, which would stall the shared one.
    pub(super) blocking: BlockingPool,
    /// Connections for writes that wait for replicas, which would stall the shared one as well.
    pub(super) replicated: ReplicatedPool,
}

/// How to find the server.
enum NodeLocator {
    Address(Arc<Client>),
    Sentinels(Box<Mutex<SentinelClient>>),
}

#[derive(Clone)]
struct OpenConnection {
    connection: MultiplexedConnection,
    /// The server it leads to. Dedicated connections lead to the same one.
    client: Arc<Client>,
    /// Distinguishes a broken connection from its replacement.
    generation: u64,
}

impl Node {
    /// The server of these options, or the first known one of a Cluster.
    pub(crate) fn from_options(options: &RedisOptions) -> Result<Arc<Self>, Error> {
        let Some(sentinels) = &options.sentinels else { return Self::new(options.info.clone()) };
        let address = options.display_address();
        let client = sentinels
            .client(&options.info)
            .map_err(|error| Error::Invalid(format!("redis {address}: {error}")))?;
        Ok(Self::with_locator(NodeLocator::Sentinels(Box::new(Mutex::new(client))), address))
    }

    pub(crate) fn new(info: ConnectionInfo) -> Result<Arc<Self>, Error> {
        let address = info.addr().to_string();
        let client =
            Client::open(info).map_err(|error| Error::Invalid(format!("redis {address}: {error}")))?;
        Ok(Self::with_locator(NodeLocator::Address(Arc::new(client)), address))
    }

    fn with_locator(locator: NodeLocator, address: String) -> Arc<Self> {
        let (shared, opening, blocking) = (RwLock::default(), Mutex::default(), BlockingPool::default());
        let (confirming, judged) = (ReplicatedPool::default(), AtomicU64::default());
        Arc::new(Self {
            locator,
            address,
            shared,
            checked_generation: judged,
            opening,
            blocking,
            replicated: confirming,
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    fn current(&self) -> Option<OpenConnection> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes sure that the server responds.
    pub(super) async fn ensure_connected(&self) -> Result<(), RedisError> {
        self.shared_connection().await.map(drop)
    }

    async fn shared_connection(&self) -> Result<OpenConnection, RedisError> {
        match self.current() {
            Some(open) => Ok(open),
            None => self.reconnect().await,
        }
    }

    /// Boxed, because it is rare, and large with the driver's search for a master.
    fn reconnect(&self) -> BoxFuture<'_, Result<OpenConnection, RedisError>> {
        Box::pin(async {
            let _guard = self.opening.lock().await;
            if let Some(open) = self.current() {
                return Ok(open);
            }
            let client = self.locator.client().await.map_err(not_connected)?;
            let connection = connect(&client, Some(RESPONSE_TIMEOUT)).await?;
            let open = OpenConnection { connection, client, generation: fastrand::u64(1..) };
            *self.shared.write().unwrap_or_else(PoisonError::into_inner) = Some(open.clone());
            Ok(open)
        })
    }

    /// Opens a dedicated connection; returns it with the generation of the shared one.
    pub(super) async fn connect_dedicated(
        &self,
        response: Option<Duration>,
    ) -> Result<(MultiplexedConnection, u64), RedisError> {
        let open = self.shared_connection().await?;
        let connection = self.discard_if_broken(open.generation, connect(&open.client, response).await)?;
        Ok((connection, open.generation))
    }

    /// Whether this generation is that of the shared connection.
    pub(super) fn is_current(&self, generation: u64) -> bool {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        shared.as_ref().is_some_and(|open| open.generation == generation)
    }

    /// The generation of the shared connection; 0 if there is none.
    pub(super) fn generation(&self) -> u64 {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        shared.as_ref().map_or(0, |open| open.generation)
    }

    /// Records that the permissions were checked on this generation's server.
    pub(super) fn set_permissions_checked(&self, generation: u64) {
        self.checked_generation.store(generation, Ordering::Relaxed);
    }

    /// Whether the permissions were checked on the current server.
    pub(super) fn has_checked_permissions(&self) -> bool {
        let generation = self.generation();
        generation != 0 && generation == self.checked_generation.load(Ordering::Relaxed)
    }

    /// Opens a connection for subscriptions.
    pub(super) async fn connect_pubsub(&self) -> Result<PubSub, RedisError> {
        let open = self.shared_connection().await?;
        let opened = timeout(CONNECT_TIMEOUT, open.client.get_async_pubsub()).await;
        self.discard_if_broken(open.generation, opened.unwrap_or_else(|_| Err(no_response())))
    }

    /// Drops the shared connection of this generation: the next command opens another.
    pub(super) fn discard_connection(&self, generation: u64) {
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if shared.as_ref().is_some_and(|open| open.generation == generation) {
            *shared = None;
        }
    }

    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut open = self.shared_connection().await?;
        let reply = open.connection.req_packed_command(command).await.and_then(Value::extract_error);
        self.discard_if_broken(open.generation, reply)
    }

    pub(crate) async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut open = self.shared_connection().await?;
        let reply =
            pipeline.query_async::<Vec<Value>>(&mut open.connection).await.map_err(first_server_error);
        self.discard_if_broken(open.generation, reply)
    }

    /// The replies to several commands, including errors.
    pub(crate) async fn raw_replies(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut open = self.shared_connection().await?;
        let reply = open.connection.req_packed_commands(pipeline, 0, pipeline.len()).await;
        self.discard_if_broken(open.generation, reply)
    }

    fn discard_if_broken<T>(&self, generation: u64, reply: Result<T, RedisError>) -> Result<T, RedisError> {
        if let Err(error) = &reply
            && is_connection(error)
        {
            self.discard_connection(generation);
        }
        reply
    }
}

impl NodeLocator {
    async fn client(&self) -> Result<Arc<Client>, RedisError> {
        match self {
            Self::Address(client) => Ok(client.clone()),
            Self::Sentinels(sentinels) => sentinels.lock().await.async_get_client().await.map(Arc::new),
        }
    }
}

async fn connect(client: &Client, response: Option<Duration>) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(response);
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(not_connected)
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

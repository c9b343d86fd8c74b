//! One server: a shared connection that is opened when first needed and again after it broke. Behind Sentinels it is
//! whichever server is the master when the connection is opened.

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

use super::blocking::Pool;
use super::replicated::Confirming;
use super::silent;
use crate::error::{first_of, is_connection, not_connected};
use crate::options::Options;

/// Opening a connection must not take longer than a user waits for a clear error.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// No command of the shared connection takes this long on a healthy server; the driver's 500 ms is too short
/// for a server that is saving, and none at all would hang for ever on a black-holed one.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// One server.
pub(crate) struct Node {
    origin: Origin,
    address: String,
    shared: RwLock<Option<Open>>,
    /// The number of the connection by which the server was asked what the user may do.
    judged: AtomicU64,
    /// Whoever finds the connection broken opens the next one; the others wait for it here.
    opening: Mutex<()>,
    /// Connections for blocking reads, which would stall everyone on the shared one.
    pub(super) blocking: Pool,
    /// Connections for writes that wait for replicas, which would stall everyone as well.
    pub(super) confirming: Confirming,
}

/// Who knows where the server is.
enum Origin {
    Address(Arc<Client>),
    Sentinels(Box<Mutex<SentinelClient>>),
}

#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    /// Where it leads. Every other connection is opened to the same server.
    client: Arc<Client>,
    /// Tells a broken connection from the one that has replaced it.
    number: u64,
}

impl Node {
    /// The server that options lead to, or the first they name of a Cluster.
    pub(crate) fn of(options: &Options) -> Result<Arc<Self>, Error> {
        let Some(sentinels) = &options.sentinels else { return Self::new(options.info.clone()) };
        let place = options.place();
        let client = sentinels
            .client(&options.info)
            .map_err(|error| Error::Invalid(format!("redis {place}: {error}")))?;
        Ok(Self::from(Origin::Sentinels(Box::new(Mutex::new(client))), place))
    }

    pub(crate) fn new(info: ConnectionInfo) -> Result<Arc<Self>, Error> {
        let address = info.addr().to_string();
        let client =
            Client::open(info).map_err(|error| Error::Invalid(format!("redis {address}: {error}")))?;
        Ok(Self::from(Origin::Address(Arc::new(client)), address))
    }

    fn from(origin: Origin, address: String) -> Arc<Self> {
        let (shared, opening, blocking) = (RwLock::default(), Mutex::default(), Pool::default());
        let (confirming, judged) = (Confirming::default(), AtomicU64::default());
        Arc::new(Self { origin, address, shared, judged, opening, blocking, confirming })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    fn current(&self) -> Option<Open> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes sure that the server answers.
    pub(super) async fn reach(&self) -> Result<(), RedisError> {
        self.open().await.map(drop)
    }

    async fn open(&self) -> Result<Open, RedisError> {
        match self.current() {
            Some(open) => Ok(open),
            None => self.open_anew().await,
        }
    }

    /// In a box, because it is rare, and large with all that the driver does to find a master.
    fn open_anew(&self) -> BoxFuture<'_, Result<Open, RedisError>> {
        Box::pin(async {
            let _turn = self.opening.lock().await;
            if let Some(open) = self.current() {
                return Ok(open);
            }
            let client = self.origin.client().await.map_err(not_connected)?;
            let connection = connect(&client, Some(RESPONSE_TIMEOUT)).await?;
            let open = Open { connection, client, number: fastrand::u64(1..) };
            *self.shared.write().unwrap_or_else(PoisonError::into_inner) = Some(open.clone());
            Ok(open)
        })
    }

    /// Opens a connection for one caller at a time, and says by which number it is outdated when the shared one is
    /// replaced.
    pub(super) async fn connect_own(
        &self,
        response: Option<Duration>,
    ) -> Result<(MultiplexedConnection, u64), RedisError> {
        let open = self.open().await?;
        let connection = self.note(open.number, connect(&open.client, response).await)?;
        Ok((connection, open.number))
    }

    /// Whether connections of this number lead to where the shared one does.
    pub(super) fn is_current(&self, number: u64) -> bool {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        shared.as_ref().is_some_and(|open| open.number == number)
    }

    /// The number of the shared connection; 0 if there is none.
    pub(super) fn number(&self) -> u64 {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        shared.as_ref().map_or(0, |open| open.number)
    }

    /// The server that the connection of this number leads to has been asked what the user may do.
    pub(super) fn judged(&self, number: u64) {
        self.judged.store(number, Ordering::Relaxed);
    }

    /// Whether the server that the shared connection leads to has been asked.
    pub(super) fn is_judged(&self) -> bool {
        let number = self.number();
        number != 0 && number == self.judged.load(Ordering::Relaxed)
    }

    /// Opens a connection for subscriptions.
    pub(super) async fn connect_pubsub(&self) -> Result<PubSub, RedisError> {
        let open = self.open().await?;
        let opened = timeout(CONNECT_TIMEOUT, open.client.get_async_pubsub()).await;
        self.note(open.number, opened.unwrap_or_else(|_| Err(silent())))
    }

    /// Gives up the shared connection of this number: the next command opens another.
    pub(super) fn forget(&self, number: u64) {
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if shared.as_ref().is_some_and(|open| open.number == number) {
            *shared = None;
        }
    }

    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut open = self.open().await?;
        let answer = open.connection.req_packed_command(command).await.and_then(Value::extract_error);
        self.note(open.number, answer)
    }

    pub(crate) async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut open = self.open().await?;
        let answer = pipeline.query_async::<Vec<Value>>(&mut open.connection).await.map_err(first_of);
        self.note(open.number, answer)
    }

    /// The answers to several commands, errors among them.
    pub(crate) async fn answers(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut open = self.open().await?;
        let answer = open.connection.req_packed_commands(pipeline, 0, pipeline.len()).await;
        self.note(open.number, answer)
    }

    fn note<T>(&self, number: u64, answer: Result<T, RedisError>) -> Result<T, RedisError> {
        if let Err(error) = &answer
            && is_connection(error)
        {
            self.forget(number);
        }
        answer
    }
}

impl Origin {
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

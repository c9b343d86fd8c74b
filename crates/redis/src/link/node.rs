//! One server: a shared connection that is opened when first needed and again after it broke.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, RedisError, Value};
use tidemill_core::Error;
use tokio::sync::Mutex;

use super::blocking::Pool;
use crate::error::{first_of, is_connection};

/// Opening a connection must not take longer than a user waits for a clear error.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// No command of the shared connection takes this long on a healthy server; the driver's 500 ms is too short
/// for a server that is saving, and none at all would hang for ever on a black-holed one.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// One server.
pub(crate) struct Node {
    client: Client,
    address: String,
    shared: RwLock<Option<Open>>,
    /// Whoever finds the connection broken opens the next one; the others wait for it here.
    opening: Mutex<()>,
    /// Connections for blocking reads, which would stall everyone on the shared one.
    pub(super) blocking: Pool,
}

#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    /// Tells a broken connection from the one that has replaced it.
    number: u64,
}

impl Node {
    pub(crate) fn new(info: ConnectionInfo) -> Result<Arc<Self>, Error> {
        let address = info.addr().to_string();
        let client =
            Client::open(info).map_err(|error| Error::Invalid(format!("redis {address}: {error}")))?;
        let (shared, opening, blocking) = (RwLock::default(), Mutex::default(), Pool::default());
        Ok(Arc::new(Self { client, address, shared, opening, blocking }))
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn current(&self) -> Option<Open> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        Ok(self.open().await?.connection)
    }

    async fn open(&self) -> Result<Open, RedisError> {
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let _turn = self.opening.lock().await;
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let connection = self.connect(Some(RESPONSE_TIMEOUT)).await?;
        let open = Open { connection, number: fastrand::u64(..) };
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = Some(open.clone());
        Ok(open)
    }

    /// Opens a connection of its own.
    pub(super) async fn connect(
        &self,
        response: Option<Duration>,
    ) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(response);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    fn forget(&self, number: u64) {
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

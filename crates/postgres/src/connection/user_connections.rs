//! Connections for users' own transactions. They have the user's settings instead of ours, and are
//! never shared with the store's own statements, so that a slow handler does not block heartbeats.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{Client, Row, SimpleQueryStream, Statement};

use super::connector::TypedParams;

/// How many statements stay prepared on one connection, so that a user who generates statement
/// texts cannot fill its memory.
const MAX_PREPARED_STATEMENTS: usize = 256;

/// How long to wait for the rollback of an abandoned transaction. It may still be in a long
/// statement.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection for one transaction at a time.
pub(crate) struct UserConnection {
    pub(crate) client: Client,
    /// Whether it goes through a pooler. Then a prepared statement would be left for other clients.
    is_pooled: bool,
    prepared: Mutex<HashMap<String, Statement>>,
}

impl UserConnection {
    pub(crate) fn new(client: Client, is_pooled: bool) -> Self {
        Self { client, is_pooled, prepared: Mutex::default() }
    }

    /// Runs a statement of the store.
    pub(crate) async fn query(
        &self,
        text: &str,
        params: TypedParams<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.statement(text).await?;
        self.send(&statement, params).await
    }

    /// A statement of the store as it is to be sent: prepared, unless the connection is pooled.
    pub(crate) async fn statement<'a>(
        &self,
        text: &'a str,
    ) -> Result<UserStatement<'a>, tokio_postgres::Error> {
        match self.is_pooled {
            true => Ok(UserStatement::Text(text)),
            false => self.prepare(text).await.map(UserStatement::Prepared),
        }
    }

    /// Sends a statement when it is first polled, so that more can be pipelined behind it.
    pub(crate) async fn send(
        &self,
        statement: &UserStatement<'_>,
        params: TypedParams<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match statement {
            UserStatement::Text(text) => self.client.query_typed(text, params).await,
            UserStatement::Prepared(statement) => {
                let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
                self.client.query(statement, &values).await
            }
        }
    }

    /// A prepared statement. It is cached unless the connection is pooled.
    pub(crate) async fn prepare(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if self.is_pooled {
            return self.client.prepare(sql).await;
        }
        if let Some(statement) = lock(&self.prepared).get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        let mut prepared = lock(&self.prepared);
        if prepared.len() < MAX_PREPARED_STATEMENTS {
            prepared.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }
}

/// A statement of the store.
pub(crate) enum UserStatement<'a> {
    Text(&'a str),
    Prepared(Statement),
}

/// The unread response to a ROLLBACK.
type UnreadRollback = Pin<Box<SimpleQueryStream>>;

/// The unused connections, and how many there may be in all.
pub(crate) struct UserConnectionPool {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<IdleUserConnection>>,
}

/// An unused connection.
struct IdleUserConnection {
    connection: Arc<UserConnection>,
    /// Set if its last transaction was abandoned and the rollback is not confirmed yet.
    unread: Option<UnreadRollback>,
}

impl UserConnectionPool {
    pub(crate) fn new(max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max)), idle: Mutex::default() }
    }

    /// Waits until one more connection may be used.
    pub(crate) async fn acquire_permit(&self) -> Result<OwnedSemaphorePermit, Error> {
        let closed = |error| Error::unavailable("the store is closed", error);
        self.permits.clone().acquire_owned().await.map_err(closed)
    }

    /// An unused connection, if there is a reusable one.
    pub(crate) async fn take(&self) -> Option<Arc<UserConnection>> {
        loop {
            let IdleUserConnection { connection, unread } = lock(&self.idle).pop()?;
            if !connection.client.is_closed() && is_rolled_back(unread).await {
                return Some(connection);
            }
        }
    }

    /// Returns a connection whose transaction has ended.
    pub(crate) fn put(&self, connection: Arc<UserConnection>) {
        lock(&self.idle).push(IdleUserConnection { connection, unread: None });
    }

    /// Returns a connection whose transaction has not ended. The ROLLBACK is sent at once; the next
    /// user of the connection checks its response.
    pub(crate) fn roll_back_and_put(&self, connection: Arc<UserConnection>) {
        // Sending does not wait. A connection that cannot send is dropped.
        if let Some(Ok(unread)) = connection.client.simple_query_raw("ROLLBACK").now_or_never() {
            lock(&self.idle).push(IdleUserConnection { connection, unread: Some(Box::pin(unread)) });
        }
    }
}

/// Whether the transaction before is known to have ended.
async fn is_rolled_back(unread: Option<UnreadRollback>) -> bool {
    let Some(mut unread) = unread else { return true };
    let read = async {
        while let Some(message) = unread.next().await {
            if message.is_err() {
                return false;
            }
        }
        true
    };
    timeout(ROLLBACK_TIMEOUT, read).await.unwrap_or(false)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Connections for users' own transactions: plain ones, with the user's settings and not with ours, and never shared
//! with the store's own statements, so that a slow handler holds up no heartbeat.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::{Client, Row, SimpleQueryStream, Statement};

use crate::connection::TypedParams;

/// How many statements are kept prepared on one connection. Whoever makes up a new text for each call gets no more.
const PREPARED: usize = 256;

/// How long the end of the transaction before is waited for. It was given up, and may still be in a long statement.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection for one transaction at a time.
pub(crate) struct Guest {
    pub(crate) client: Client,
    /// Whether it leads through a pooler. Then a prepared statement would be left to whoever comes next.
    is_pooled: bool,
    prepared: Mutex<HashMap<String, Statement>>,
}

impl Guest {
    pub(crate) fn new(client: Client, is_pooled: bool) -> Self {
        Self { client, is_pooled, prepared: Mutex::default() }
    }

    /// Runs a statement of the store's own.
    pub(crate) async fn query(
        &self,
        text: &str,
        params: TypedParams<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let text = self.known(text).await?;
        self.send(&text, params).await
    }

    /// A statement of the store's own as it is to be sent: prepared, unless the connection is shared.
    pub(crate) async fn known<'a>(&self, text: &'a str) -> Result<Known<'a>, tokio_postgres::Error> {
        match self.is_pooled {
            true => Ok(Known::Text(text)),
            false => self.prepare(text).await.map(Known::Prepared),
        }
    }

    /// Sends a statement when it is first polled, so that more can be sent behind it.
    pub(crate) async fn send(
        &self,
        known: &Known<'_>,
        params: TypedParams<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match known {
            Known::Text(text) => self.client.query_typed(text, params).await,
            Known::Prepared(statement) => {
                let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
                self.client.query(statement, &values).await
            }
        }
    }

    /// A statement, prepared once if the connection is not shared.
    pub(crate) async fn prepare(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if self.is_pooled {
            return self.client.prepare(sql).await;
        }
        if let Some(statement) = lock(&self.prepared).get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        let mut prepared = lock(&self.prepared);
        if prepared.len() < PREPARED {
            prepared.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }
}

/// A statement of the store's own.
pub(crate) enum Known<'a> {
    Text(&'a str),
    Prepared(Statement),
}

/// The answer to a ROLLBACK that nobody has read yet.
type Unread = Pin<Box<SimpleQueryStream>>;

/// The guests that nobody uses right now, and how many there may be.
pub(crate) struct Guests {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

/// A guest that nobody uses right now.
struct Idle {
    guest: Arc<Guest>,
    /// Its last transaction was given up, and nobody has made sure yet that this has ended it.
    unread: Option<Unread>,
}

impl Guests {
    pub(crate) fn new(most: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(most)), idle: Mutex::default() }
    }

    /// Waits until one more may be used.
    pub(crate) async fn admit(&self) -> Result<OwnedSemaphorePermit, Error> {
        let closed = |error| Error::unavailable("the store is closed", error);
        self.permits.clone().acquire_owned().await.map_err(closed)
    }

    /// One that was used before, if there is a sound one.
    pub(crate) async fn take(&self) -> Option<Arc<Guest>> {
        loop {
            let Idle { guest, unread } = lock(&self.idle).pop()?;
            if !guest.client.is_closed() && settled(unread).await {
                return Some(guest);
            }
        }
    }

    /// Gives back one whose transaction has ended.
    pub(crate) fn put(&self, guest: Arc<Guest>) {
        lock(&self.idle).push(Idle { guest, unread: None });
    }

    /// Gives back one whose transaction has not ended. It is rolled back at once; whoever uses the connection next
    /// makes sure of it.
    pub(crate) fn put_rolled_back(&self, guest: Arc<Guest>) {
        // Sending does not wait. What cannot be sent is not worth keeping.
        if let Some(Ok(unread)) = guest.client.simple_query_raw("ROLLBACK").now_or_never() {
            lock(&self.idle).push(Idle { guest, unread: Some(Box::pin(unread)) });
        }
    }
}

/// Whether the transaction before is known to have ended.
async fn settled(unread: Option<Unread>) -> bool {
    let Some(mut unread) = unread else { return true };
    let read = async {
        while let Some(message) = unread.next().await {
            if message.is_err() {
                return false;
            }
        }
        true
    };
    timeout(PATIENCE, read).await.unwrap_or(false)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

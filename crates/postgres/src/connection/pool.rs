//! The pool: a few connections shared by all callers of the process, reopened when they are cut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tidemill_core::Error;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::Row;

use super::connector::{Connection, Connector, Params, affected_rows};
use super::statements::{StatementCall, StatementCalls};
use super::user_connections::{UserConnection, UserConnectionPool};
use crate::clock::ServerClock;
use crate::error::{breaks_connection, classify, may_be_stale_type};
use crate::options::PostgresOptions;
use crate::sql::Sql;

/// The longest time of a call. The statement of a call that times out is cancelled. It is longer
/// than a statement waits for a lock, so that usually the server gives up first and reports why.
const CALL_TIMEOUT: Duration = Duration::from_secs(12);

/// The interval between attempts to reach a server that is down, however many callers there are.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// The connections of a process.
pub(crate) struct Pool {
    pub(crate) connector: Arc<Connector>,
    /// Set once the schema has been read.
    calls: RwLock<Option<StatementCalls>>,
    pub(crate) clock: Arc<ServerClock>,
    /// One permit for each connection.
    permits: Semaphore,
    /// Connections for users' transactions.
    pub(crate) user_connections: UserConnectionPool,
    /// Unused connections. The one used last is used first.
    idle: Mutex<Vec<Connection>>,
    /// After a failed attempt: when the next one may be made.
    next_attempt: Mutex<Option<Instant>>,
    /// The number of statements sent so far.
    sent: AtomicU64,
}

impl Pool {
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, Error> {
        Ok(Self {
            connector: Arc::new(Connector::new(options)?),
            calls: RwLock::default(),
            clock: Arc::new(ServerClock::new()),
            permits: Semaphore::new(options.connections),
            user_connections: UserConnectionPool::new(options.connections),
            idle: Mutex::default(),
            next_attempt: Mutex::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(&self, sql: &'static Sql, params: Params<'_>) -> Result<Vec<Row>, Error> {
        self.attempt(sql, params).await?.map_err(|error| classify(sql.name, error))
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn execute(&self, sql: &'static Sql, params: Params<'_>) -> Result<u64, Error> {
        Ok(affected_rows(&self.query(sql, params).await?))
    }

    /// Sends a statement and returns its rows.
    pub(crate) async fn send(&self, call: &StatementCall, params: Params<'_>) -> Result<Vec<Row>, Error> {
        let answer = self.ask(call, params).await?;
        answer.map_err(|error| classify(call.name, error))
    }

    /// Runs a statement and returns the driver's error, for a caller that handles some errors
    /// itself.
    pub(crate) async fn attempt(
        &self,
        sql: &'static Sql,
        params: Params<'_>,
    ) -> Result<Result<Vec<Row>, tokio_postgres::Error>, Error> {
        let call = self.call(sql)?;
        match self.ask(&call, params).await? {
            Err(error)
                if call.has_row_types() && may_be_stale_type(&error) && self.reload(&call, sql).await? =>
            {
                self.ask(&*self.call(sql)?, params).await
            }
            answer => Ok(answer),
        }
    }

    /// Sends a statement. A timeout before it is sent means no effect; after that the result is
    /// unknown.
    async fn ask(
        &self,
        call: &StatementCall,
        params: Params<'_>,
    ) -> Result<Result<Vec<Row>, tokio_postgres::Error>, Error> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        let late = || format!("{} got no answer in {CALL_TIMEOUT:?}", call.name);
        let held = timeout_at(deadline, self.acquire()).await;
        let mut held = held.map_err(|elapsed| Error::unavailable(late(), elapsed))??;
        let answer = timeout_at(deadline, held.connection()?.query(call, params)).await;
        let answer = answer.map_err(|elapsed| Error::unanswered(late(), elapsed))?;
        held.record_response(&answer);
        Ok(answer)
    }

    /// How to call a statement in this schema.
    pub(crate) fn call(&self, sql: &'static Sql) -> Result<Arc<StatementCall>, Error> {
        let unknown = || Error::Unsuitable("the schema has not been read".into());
        let calls = self.calls.read().unwrap_or_else(PoisonError::into_inner);
        calls.as_ref().ok_or_else(unknown)?.get(sql)
    }

    /// Stores how to call the statements in this schema.
    pub(crate) fn set_calls(&self, calls: StatementCalls) {
        *self.calls.write().unwrap_or_else(PoisonError::into_inner) = Some(calls);
    }

    /// Reads the types of the schema's functions again, and returns whether those of this call have
    /// changed. Row types have other oids on a server that data was restored or replicated to.
    async fn reload(&self, call: &StatementCall, sql: &'static Sql) -> Result<bool, Error> {
        let mut held = self.acquire().await?;
        let answer = StatementCalls::load(&held.connection()?.client, &self.connector.schema).await;
        self.set_calls(held.check("looking at the functions", answer)?);
        Ok(self.call(sql)?.types != call.types)
    }

    /// A connection for a caller that sends several statements on the same one.
    pub(crate) async fn acquire(&self) -> Result<PooledConnection<'_>, Error> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let closed = |error| Error::unavailable("the store is closed", error);
        let permit = self.permits.acquire().await.map_err(closed)?;
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => Box::pin(self.open()).await?,
        };
        Ok(PooledConnection {
            pool: self,
            connection: Some(connection),
            reusable: false,
            busy: false,
            _permit: permit,
        })
    }

    /// How many statements have been sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts a statement that was sent on a connection outside of the pool.
    pub(crate) fn count_one(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        while let Some(connection) = idle.pop() {
            if !connection.client.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// A connection for a user's transaction.
    pub(crate) async fn user_connection(&self) -> Result<Arc<UserConnection>, Error> {
        match self.user_connections.take().await {
            Some(connection) => Ok(connection),
            None => {
                let client = self.open_paced(Box::pin(self.connector.open_plain())).await?;
                Ok(Arc::new(UserConnection::new(client, self.connector.is_pooled())))
            }
        }
    }

    async fn open(&self) -> Result<Connection, Error> {
        // Rarely called and large, so it is kept out of every caller's future.
        self.open_paced(Box::pin(self.connector.open(&self.clock, Box::new(|_| {})))).await
    }

    /// Opens a connection. While the server is down, attempts are paced.
    async fn open_paced<T>(&self, open: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if let Some(slot) = self.reserve_attempt() {
            sleep_until(slot).await;
        }
        let opened = open.await;
        let mut next = lock(&self.next_attempt);
        *next = match &opened {
            Ok(_) => None,
            // Reserved slots stay reserved.
            Err(_) => (*next).max(Some(Instant::now() + RECONNECT_INTERVAL)),
        };
        drop(next);
        opened
    }

    /// Reserves a time for this caller's attempt, if the attempt before has failed. Each caller
    /// gets its own, so that many callers do not overload a server that comes back.
    fn reserve_attempt(&self) -> Option<Instant> {
        let mut next = lock(&self.next_attempt);
        let slot = next.as_ref()?.max(&Instant::now()).to_owned();
        *next = Some(slot + RECONNECT_INTERVAL);
        Some(slot)
    }
}

/// Fails with an error if `work` takes longer than a call may take.
pub(crate) async fn with_timeout<T>(
    doing: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match timeout(CALL_TIMEOUT, work).await {
        Ok(answer) => answer,
        Err(elapsed) => {
            Err(Error::unavailable(format!("{doing} got no answer in {CALL_TIMEOUT:?}"), elapsed))
        }
    }
}

/// A connection in use. It returns to the pool only if it is known to be reusable: a caller that
/// gave up half-way leaves an unread response.
pub(crate) struct PooledConnection<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    reusable: bool,
    /// Whether a statement was sent whose response nobody has read.
    busy: bool,
    _permit: SemaphorePermit<'a>,
}

impl PooledConnection<'_> {
    /// The connection. It is not reusable until the response has been checked.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Error> {
        self.reusable = false;
        self.busy = true;
        self.connection
            .as_mut()
            .ok_or_else(|| Error::Unavailable { message: "no connection".into(), source: None })
    }

    /// Classifies a response, and keeps the connection if it is still good.
    pub(crate) fn check<T>(
        &mut self,
        doing: &str,
        answer: Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        self.record_response(&answer);
        answer.map_err(|error| classify(doing, error))
    }

    /// Keeps the connection if it is still good after this response.
    fn record_response<T>(&mut self, answer: &Result<T, tokio_postgres::Error>) {
        self.busy = false;
        self.reusable = answer.as_ref().err().is_none_or(|error| !breaks_connection(error));
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.reusable {
            lock(&self.pool.idle).push(connection);
        } else if self.busy
            && let Ok(runtime) = Handle::try_current()
        {
            // The server would continue with the statement, however long it takes.
            let connector = self.pool.connector.clone();
            runtime.spawn(async move { connector.cancel(connection).await });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A few connections shared by everyone in the process, reopened when they are cut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidemill_core::Error;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::Row;

use crate::clock::ServerClock;
use crate::connection::{Connection, Opener, Params, touched};
use crate::error::{classify, spoils};
use crate::guests::{Guest, Guests};
use crate::options::Options;
use crate::sql::Sql;
use crate::statements::{Call, Calls};

/// No call takes longer: a server that does not answer is not there. What it may still be doing is cancelled. Above
/// the time that a statement waits for a lock, so that usually it is the server that gives up, and says so.
const CALL: Duration = Duration::from_secs(12);

/// While the server is away, attempts to reach it are this far apart, however many callers there are.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections of a process.
pub(crate) struct Pool {
    pub(crate) opener: Arc<Opener>,
    /// Known once the schema has been looked at.
    calls: OnceLock<Calls>,
    pub(crate) clock: ServerClock,
    /// As many as there may be connections.
    permits: Semaphore,
    /// Connections for users' transactions.
    pub(crate) guests: Guests,
    /// Connections nobody uses right now; the one used last is used first.
    idle: Mutex<Vec<Connection>>,
    /// Since an attempt has failed: when the next one may be made.
    next_attempt: Mutex<Option<Instant>>,
    /// Statements sent so far.
    sent: AtomicU64,
}

impl Pool {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        Ok(Self {
            opener: Arc::new(Opener::new(options)?),
            calls: OnceLock::new(),
            clock: ServerClock::new(),
            permits: Semaphore::new(options.connections),
            guests: Guests::new(options.connections),
            idle: Mutex::default(),
            next_attempt: Mutex::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(&self, sql: &'static Sql, params: Params<'_>) -> Result<Vec<Row>, Error> {
        self.send(self.call(sql)?, params).await
    }

    /// Runs a statement and returns how many rows it touched.
    pub(crate) async fn execute(&self, sql: &'static Sql, params: Params<'_>) -> Result<u64, Error> {
        Ok(touched(&self.query(sql, params).await?))
    }

    /// Sends a statement and returns its rows.
    pub(crate) async fn send(&self, call: &Call, params: Params<'_>) -> Result<Vec<Row>, Error> {
        let answer = self.ask(call, params).await?;
        answer.map_err(|error| classify(call.name, error))
    }

    /// Runs a statement for an answer that the caller wants to judge itself.
    pub(crate) async fn attempt(
        &self,
        sql: &'static Sql,
        params: Params<'_>,
    ) -> Result<Result<Vec<Row>, tokio_postgres::Error>, Error> {
        self.ask(self.call(sql)?, params).await
    }

    /// Sends a statement. What takes too long before it is sent has no effect; beyond that nothing is known.
    async fn ask(
        &self,
        call: &Call,
        params: Params<'_>,
    ) -> Result<Result<Vec<Row>, tokio_postgres::Error>, Error> {
        let deadline = Instant::now() + CALL;
        let late = || format!("{} got no answer in {CALL:?}", call.name);
        let held = timeout_at(deadline, self.hold()).await;
        let mut held = held.map_err(|elapsed| Error::unavailable(late(), elapsed))??;
        let answer = timeout_at(deadline, held.connection()?.query(call, params)).await;
        let answer = answer.map_err(|elapsed| Error::unanswered(late(), elapsed))?;
        held.answered(&answer);
        Ok(answer)
    }

    /// How a statement is called in this schema.
    pub(crate) fn call(&self, sql: &'static Sql) -> Result<&Call, Error> {
        let unknown = || Error::Unsuitable("the schema has not been looked at".into());
        self.calls.get().ok_or_else(unknown)?.get(sql)
    }

    /// Remembers how statements are called in this schema.
    pub(crate) fn learn(&self, calls: Calls) {
        // Whoever was first has read the same.
        let _ = self.calls.set(calls);
    }

    /// A connection for a caller that needs several statements on the same one.
    pub(crate) async fn hold(&self) -> Result<Held<'_>, Error> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let closed = |error| Error::unavailable("the store is closed", error);
        let permit = self.permits.acquire().await.map_err(closed)?;
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => Box::pin(self.open()).await?,
        };
        Ok(Held { pool: self, connection: Some(connection), sound: false, busy: false, _permit: permit })
    }

    /// How many statements have been sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts a statement that was sent on a connection of its own.
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
    pub(crate) async fn guest(&self) -> Result<Arc<Guest>, Error> {
        match self.guests.take().await {
            Some(guest) => Ok(guest),
            None => {
                let client = self.in_turn(Box::pin(self.opener.open_plain())).await?;
                Ok(Arc::new(Guest::new(client, self.opener.is_pooled())))
            }
        }
    }

    async fn open(&self) -> Result<Connection, Error> {
        // Rarely done and large, so it is kept out of every caller's future.
        self.in_turn(Box::pin(self.opener.open(&self.clock, Box::new(|_| {})))).await
    }

    /// Opens a connection when it is this caller's turn.
    async fn in_turn<T>(&self, open: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if let Some(turn) = self.turn() {
            sleep_until(turn).await;
        }
        let opened = open.await;
        let mut next = lock(&self.next_attempt);
        *next = match &opened {
            Ok(_) => None,
            // Turns that have been given out stay given out.
            Err(_) => (*next).max(Some(Instant::now() + PAUSE)),
        };
        drop(next);
        opened
    }

    /// When this caller may try, if the attempt before has failed. Each caller gets a turn of its own, so
    /// that a crowd of them does not turn an outage into a storm.
    fn turn(&self) -> Option<Instant> {
        let mut next = lock(&self.next_attempt);
        let turn = next.as_ref()?.max(&Instant::now()).to_owned();
        *next = Some(turn + PAUSE);
        Some(turn)
    }
}

/// Ends `work` with an error when the server does not answer.
pub(crate) async fn in_time<T>(
    doing: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match timeout(CALL, work).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(Error::unavailable(format!("{doing} got no answer in {CALL:?}"), elapsed)),
    }
}

/// A connection in somebody's hands. It goes back to the others only if it is known to be sound: a caller
/// that gave up half-way leaves an unread answer behind.
pub(crate) struct Held<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    sound: bool,
    /// Whether it was asked something and nobody has seen the answer.
    busy: bool,
    _permit: SemaphorePermit<'a>,
}

impl Held<'_> {
    /// The connection. From here on until the answer has been judged it is not sound.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Error> {
        self.sound = false;
        self.busy = true;
        self.connection
            .as_mut()
            .ok_or_else(|| Error::Unavailable { message: "no connection".into(), source: None })
    }

    /// Classifies an answer, and keeps the connection if it is still good.
    pub(crate) fn judge<T>(
        &mut self,
        doing: &str,
        answer: Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        self.answered(&answer);
        answer.map_err(|error| classify(doing, error))
    }

    /// Keeps the connection if it is still good after this answer.
    fn answered<T>(&mut self, answer: &Result<T, tokio_postgres::Error>) {
        self.busy = false;
        self.sound = answer.as_ref().err().is_none_or(|error| !spoils(error));
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.sound {
            lock(&self.pool.idle).push(connection);
        } else if self.busy
            && let Ok(runtime) = Handle::try_current()
        {
            // The server would go on with it, however long it takes.
            let opener = self.pool.opener.clone();
            runtime.spawn(async move { opener.cancel(connection).await });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

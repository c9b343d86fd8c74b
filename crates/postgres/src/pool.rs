//! A few connections shared by everyone in the process, reopened when they are cut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Row;

use crate::clock::ServerClock;
use crate::connection::{Connection, Opener, Params};
use crate::error::{classify, spoils};
use crate::guests::{Guest, Guests};
use crate::options::Options;
use crate::sql::Sql;

/// No call takes longer: a server that does not answer is not there. Above the server's own time limit, so
/// that usually it is the server that gives up, and says so.
const CALL: Duration = Duration::from_secs(12);

/// While the server is away, attempts to reach it are this far apart, however many callers there are.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections of a process.
pub(crate) struct Pool {
    pub(crate) opener: Opener,
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
            opener: Opener::new(options)?,
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
        let work = async {
            let mut held = self.hold().await?;
            let answer = held.connection()?.query(sql, params).await;
            held.judge(sql.name, answer)
        };
        in_time(sql.name, work).await
    }

    /// Runs a statement and returns how many rows it touched.
    pub(crate) async fn execute(&self, sql: &'static Sql, params: Params<'_>) -> Result<u64, Error> {
        let work = async {
            let mut held = self.hold().await?;
            let answer = held.connection()?.execute(sql, params).await;
            held.judge(sql.name, answer)
        };
        in_time(sql.name, work).await
    }

    /// Runs a statement for an answer that the caller wants to judge itself.
    pub(crate) async fn attempt(
        &self,
        sql: &'static Sql,
        params: Params<'_>,
    ) -> Result<Result<u64, tokio_postgres::Error>, Error> {
        let work = async {
            let mut held = self.hold().await?;
            let answer = held.connection()?.execute(sql, params).await;
            held.sound = answer.as_ref().err().is_none_or(|error| !spoils(error));
            Ok(answer)
        };
        in_time(sql.name, work).await
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
        Ok(Held { pool: self, connection: Some(connection), sound: false, _permit: permit })
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
            None => Ok(Arc::new(Guest::new(self.in_turn(Box::pin(self.opener.open_plain())).await?))),
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
    _permit: SemaphorePermit<'a>,
}

impl Held<'_> {
    /// The connection. From here on until the answer has been judged it is not sound.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Error> {
        self.sound = false;
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
        self.sound = answer.as_ref().err().is_none_or(|error| !spoils(error));
        answer.map_err(|error| classify(doing, error))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.sound) {
            lock(&self.pool.idle).push(connection);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

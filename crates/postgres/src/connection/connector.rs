//! One connection: how it is opened, and how statements are sent on it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join3;
use tidemill_core::{Error, Timestamp};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::pooler::reported_process;
use super::statements::StatementCall;
use super::tls;
use crate::clock::ServerClock;
use crate::error::classify;
use crate::options::{ConnectTarget, PostgresOptions};

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Parameters of an unprepared statement, with their types.
pub(crate) type TypedParams<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Called for each notification; most connections receive none.
pub(crate) type OnNotification = Box<dyn Fn(Notification) + Send>;

/// The first query on a connection: the time, and what decides how statements are sent.
const CONNECTION_CHECK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now,
    pg_backend_pid() AS process, current_setting('default_transaction_isolation') AS isolation";

/// Begins a transaction where READ COMMITTED is not the default.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// How long to try to cancel a query that nobody waits for any more.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens connections.
pub(crate) struct Connector {
    pub(crate) target: ConnectTarget,
    pub(crate) schema: String,
    tls: Option<MakeRustlsConnect>,
    /// Whether the connection opened last goes through a pooler.
    pooled: AtomicBool,
}

impl Connector {
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, Error> {
        options.check()?;
        let target = ConnectTarget::parse(options)?;
        let roots = target.root_certificates.as_deref();
        let tls = if target.encrypted() { Some(tls::connector(roots)?) } else { None };
        Ok(Self { target, schema: options.schema.clone(), tls, pooled: AtomicBool::new(false) })
    }

    /// Opens a connection, and sets the clock on this occasion. It changes no settings of the
    /// connection: through a pooler it is shared with other clients.
    pub(crate) async fn open(
        &self,
        clock: &ServerClock,
        on_notification: OnNotification,
    ) -> Result<Connection, Error> {
        let (client, driver) = self.connect(on_notification).await.map_err(|error| self.explain(error))?;
        let asked = Instant::now();
        let rows = client.simple_query(CONNECTION_CHECK).await.map_err(|error| self.explain(error))?;
        let first_row = rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let column = |name: &str| first_row.and_then(|row| row.get(name));
        let now = column("now").and_then(|now| now.parse().ok());
        clock.set(asked, Timestamp(now.unwrap_or_default()));
        let process = column("process").and_then(|process| process.parse().ok());
        let is_pooled = process.is_none() || reported_process(&client).await != process;
        self.pooled.store(is_pooled, Ordering::Relaxed);
        let needs_begin = column("isolation") != Some("read committed");
        let process = process.unwrap_or_default();
        Ok(Connection { client, driver, process, is_pooled, needs_begin, prepared: HashMap::new() })
    }

    /// Opens a connection as a user would.
    pub(crate) async fn open_plain(&self) -> Result<Client, Error> {
        let (client, _) = self.connect(Box::new(|_| {})).await.map_err(|error| self.explain(error))?;
        Ok(client)
    }

    /// Whether connections go through a pooler, as far as is known.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.load(Ordering::Relaxed)
    }

    /// Cancels the query on an abandoned connection, so that the server does not continue it. The
    /// connection stays open meanwhile: a pooler needs it to find the query.
    pub(crate) async fn cancel(&self, connection: Connection) {
        let token = connection.client.cancel_token();
        let cancelling = async {
            match &self.tls {
                Some(tls) => token.cancel_query(tls.clone()).await,
                None => token.cancel_query(NoTls).await,
            }
        };
        if let Ok(Err(error)) = timeout(CANCEL_TIMEOUT, cancelling).await {
            tracing::debug!(%error, "could not cancel an abandoned query");
        }
    }

    async fn connect(
        &self,
        on_notification: OnNotification,
    ) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, socket) = self.target.config.connect(tls.clone()).await?;
                Ok((client, tokio::spawn(drive(socket, on_notification))))
            }
            None => {
                let (client, socket) = self.target.config.connect(NoTls).await?;
                Ok((client, tokio::spawn(drive(socket, on_notification))))
            }
        }
    }

    fn explain(&self, error: tokio_postgres::Error) -> Error {
        let (address, user) = (self.target.address(), self.target.user());
        match error.as_db_error() {
            Some(_) => classify(&format!("connecting to PostgreSQL at {address} as {user}"), error),
            None => Error::unavailable(format!("cannot connect to PostgreSQL at {address}"), error),
        }
    }
}

/// Moves bytes between the socket and the client until the client is dropped or the connection is
/// cut.
async fn drive<S, T>(mut socket: tokio_postgres::Connection<S, T>, on_notification: OnNotification)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| socket.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => on_notification(notification),
            Ok(_) => {}
            Err(error) => return tracing::debug!(%error, "a connection to PostgreSQL was cut"),
        }
    }
}

/// An open connection.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The task that drives the socket. It ends when the client is dropped or the connection is
    /// cut.
    pub(crate) driver: JoinHandle<()>,
    /// The process id of the server, or of the first of several behind a pooler.
    pub(crate) process: i32,
    /// Whether it goes through a pooler. Then nothing may be left on it, not even prepared
    /// statements: another client's may have the same name.
    pub(crate) is_pooled: bool,
    /// Whether statements need an explicit BEGIN to run READ COMMITTED.
    needs_begin: bool,
    prepared: HashMap<&'static str, Statement>,
}

impl Connection {
    /// Runs a statement. On a connection without a pooler it is prepared the first time.
    pub(crate) async fn query(
        &mut self,
        call: &StatementCall,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = if self.is_pooled { None } else { Some(self.prepare(call).await?) };
        let query = run(&self.client, call, statement.as_ref(), params);
        if !self.needs_begin {
            return query.await;
        }
        // One round trip: pipelined statements are answered in order, and a COMMIT after a failed
        // statement rolls back.
        let (begun, rows, committed) =
            join3(self.client.batch_execute(BEGIN), query, self.client.batch_execute("COMMIT")).await;
        begun?;
        let rows = rows?;
        committed?;
        Ok(rows)
    }

    async fn prepare(&mut self, call: &StatementCall) -> Result<Statement, tokio_postgres::Error> {
        let oids = call.types.iter().map(Type::oid);
        if let Some(statement) = self.prepared.get(call.name)
            && statement.params().iter().map(Type::oid).eq(oids)
        {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(&call.text, &call.types).await?;
        self.prepared.insert(call.name, statement.clone());
        Ok(statement)
    }
}

async fn run(
    client: &Client,
    call: &StatementCall,
    statement: Option<&Statement>,
    params: Params<'_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    match statement {
        Some(statement) => client.query(statement, params).await,
        None => {
            let typed: Vec<_> = params.iter().copied().zip(call.types.iter().cloned()).collect();
            client.query_typed(&call.text, &typed).await
        }
    }
}

/// How many rows a statement without result rows has changed. Its function returns the count.
pub(crate) fn affected_rows(rows: &[Row]) -> u64 {
    rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

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

use crate::clock::ServerClock;
use crate::error::classify;
use crate::options::{Options, Target};
use crate::pooler::announced_process;
use crate::statements::Call;
use crate::tls;

/// Statement parameters.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Statement parameters with their types, for a statement that is not prepared.
pub(crate) type TypedParams<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// What to do with notifications; most connections get none.
pub(crate) type OnNotification = Box<dyn Fn(Notification) + Send>;

/// What a connection is asked first: the time, and what decides how statements are sent.
const GREETING: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now,
    pg_backend_pid() AS process, current_setting('default_transaction_isolation') AS isolation";

/// How a transaction begins where it would not be READ COMMITTED by itself.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// How long a query that nobody waits for any more is tried to be cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything it takes to open a connection.
pub(crate) struct Opener {
    pub(crate) target: Target,
    pub(crate) schema: String,
    tls: Option<MakeRustlsConnect>,
    /// Whether the connection opened last leads through a pooler.
    pooled: AtomicBool,
}

impl Opener {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        options.check()?;
        let target = Target::read(options)?;
        let roots = target.root_certificates.as_deref();
        let tls = if target.encrypted() { Some(tls::connector(roots)?) } else { None };
        Ok(Self { target, schema: options.schema.clone(), tls, pooled: AtomicBool::new(false) })
    }

    /// Opens a connection, and takes the chance to set the clock. Nothing is set on it: through a pooler it is
    /// everybody's.
    pub(crate) async fn open(&self, clock: &ServerClock, heard: OnNotification) -> Result<Connection, Error> {
        let (client, driver) = self.dial(heard).await.map_err(|error| self.explain(error))?;
        let asked = Instant::now();
        let rows = client.simple_query(GREETING).await.map_err(|error| self.explain(error))?;
        let greeting = rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let word = |column: &str| greeting.and_then(|row| row.get(column));
        let now = word("now").and_then(|now| now.parse().ok());
        clock.set(asked, Timestamp(now.unwrap_or_default()));
        let process = word("process").and_then(|process| process.parse().ok());
        let is_pooled = process.is_none() || announced_process(&client).await != process;
        self.pooled.store(is_pooled, Ordering::Relaxed);
        let begins = word("isolation") != Some("read committed");
        let process = process.unwrap_or_default();
        Ok(Connection { client, driver, process, is_pooled, begins, prepared: HashMap::new() })
    }

    /// Opens a connection as a user would.
    pub(crate) async fn open_plain(&self) -> Result<Client, Error> {
        let (client, _) = self.dial(Box::new(|_| {})).await.map_err(|error| self.explain(error))?;
        Ok(client)
    }

    /// Whether connections lead through a pooler, as far as is known.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.load(Ordering::Relaxed)
    }

    /// Cancels what runs on a connection that is given up, so that the server does not go on with it. The connection
    /// stays open meanwhile: a pooler knows by it what to cancel.
    pub(crate) async fn cancel(&self, connection: Connection) {
        let token = connection.client.cancel_token();
        let cancelling = async {
            match &self.tls {
                Some(tls) => token.cancel_query(tls.clone()).await,
                None => token.cancel_query(NoTls).await,
            }
        };
        if let Ok(Err(error)) = timeout(CANCEL_TIMEOUT, cancelling).await {
            tracing::debug!(%error, "a query that was given up could not be cancelled");
        }
    }

    async fn dial(&self, heard: OnNotification) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, socket) = self.target.config.connect(tls.clone()).await?;
                Ok((client, tokio::spawn(drive(socket, heard))))
            }
            None => {
                let (client, socket) = self.target.config.connect(NoTls).await?;
                Ok((client, tokio::spawn(drive(socket, heard))))
            }
        }
    }

    fn explain(&self, error: tokio_postgres::Error) -> Error {
        let (place, user) = (self.target.place(), self.target.user());
        match error.as_db_error() {
            Some(_) => classify(&format!("connecting to PostgreSQL at {place} as {user}"), error),
            None => Error::unavailable(format!("cannot connect to PostgreSQL at {place}"), error),
        }
    }
}

/// Moves bytes between the socket and the client until the client is dropped or the connection is cut.
async fn drive<S, T>(mut socket: tokio_postgres::Connection<S, T>, heard: OnNotification)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| socket.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => heard(notification),
            Ok(_) => {}
            Err(error) => return tracing::debug!(%error, "a connection to PostgreSQL was cut"),
        }
    }
}

/// An open connection.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Ends by itself when the client is dropped, and with the connection.
    pub(crate) driver: JoinHandle<()>,
    /// The server's process, or the one that has answered first if there are many.
    pub(crate) process: i32,
    /// Whether it leads through a pooler. Then nothing may be left on it, prepared statements neither: another client's
    /// may have the same name.
    pub(crate) is_pooled: bool,
    /// Whether a transaction is not READ COMMITTED unless it says so.
    begins: bool,
    prepared: HashMap<&'static str, Statement>,
}

impl Connection {
    /// Runs a statement. Where connections are not shared it is prepared the first time.
    pub(crate) async fn query(
        &mut self,
        call: &Call,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = if self.is_pooled { None } else { Some(self.prepare(call).await?) };
        let query = run(&self.client, call, statement.as_ref(), params);
        if !self.begins {
            return query.await;
        }
        // One trip: what is sent at the same time is answered in order, and a COMMIT of what has failed rolls back.
        let (begun, rows, committed) =
            join3(self.client.batch_execute(BEGIN), query, self.client.batch_execute("COMMIT")).await;
        begun?;
        let rows = rows?;
        committed?;
        Ok(rows)
    }

    async fn prepare(&mut self, call: &Call) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.prepared.get(call.name) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(&call.text, &call.types).await?;
        self.prepared.insert(call.name, statement.clone());
        Ok(statement)
    }
}

async fn run(
    client: &Client,
    call: &Call,
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

/// How many rows a statement has touched that returns none: what its function counts.
pub(crate) fn touched(rows: &[Row]) -> u64 {
    rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

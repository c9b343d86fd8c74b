//! One connection: how it is opened and set up, and the statements prepared on it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::time::Instant;

use tidemill_core::{Error, Timestamp};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::clock::ServerClock;
use crate::error::classify;
use crate::options::{Options, Target};
use crate::sql::Sql;
use crate::tls;

/// Statement parameters.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Statement parameters with their types, for a statement that is not prepared.
pub(crate) type TypedParams<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// What to do with notifications; most connections get none.
pub(crate) type OnNotification = Box<dyn Fn(Notification) + Send>;

/// Everything it takes to open a connection.
pub(crate) struct Opener {
    pub(crate) target: Target,
    pub(crate) schema: String,
    tls: Option<MakeRustlsConnect>,
}

impl Opener {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        options.check()?;
        let target = Target::read(options)?;
        let roots = target.root_certificates.as_deref();
        let tls = if target.encrypted() { Some(tls::connector(roots)?) } else { None };
        Ok(Self { target, schema: options.schema.clone(), tls })
    }

    /// Opens a connection, sets it up, and takes the chance to set the clock.
    pub(crate) async fn open(&self, clock: &ServerClock, heard: OnNotification) -> Result<Connection, Error> {
        let (client, driver) = self.dial(heard).await.map_err(|error| self.explain(error))?;
        let asked = Instant::now();
        let rows = client.simple_query(&self.setup()).await.map_err(|error| self.explain(error))?;
        let now = rows.iter().find_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get("now")?.parse().ok(),
            _ => None,
        });
        clock.set(asked, Timestamp(now.unwrap_or_default()));
        Ok(Connection { client, driver, prepared: HashMap::new() })
    }

    /// Opens a connection as a user would, with none of our settings.
    pub(crate) async fn open_plain(&self) -> Result<Client, Error> {
        let (client, _) = self.dial(Box::new(|_| {})).await.map_err(|error| self.explain(error))?;
        Ok(client)
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

    /// What every connection starts with.
    ///
    /// The planner is told to walk indexes, whatever it believes about the sizes of tables: a queue is empty
    /// when statistics are gathered and full a second later, and a plan made for the one is ruinous for the
    /// other. The time limits end on the server what has been given up here.
    fn setup(&self) -> String {
        format!(
            "SET search_path = \"{}\"; SET default_transaction_isolation = 'read committed';
             SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
             SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off;
             SET statement_timeout = '10s'; SET lock_timeout = '5s';
             SET idle_in_transaction_session_timeout = '10s';
             SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
            self.schema
        )
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
    prepared: HashMap<&'static str, Statement>,
}

impl Connection {
    /// Runs a statement, preparing it the first time.
    pub(crate) async fn query(
        &mut self,
        sql: &'static Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, params).await
    }

    /// Runs a statement whose answer is how many rows it touched.
    pub(crate) async fn execute(
        &mut self,
        sql: &'static Sql,
        params: Params<'_>,
    ) -> Result<u64, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.execute(&statement, params).await
    }

    async fn prepare(&mut self, sql: &'static Sql) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.prepared.get(sql.name) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql.text).await?;
        self.prepared.insert(sql.name, statement.clone());
        Ok(statement)
    }
}

//! The LISTEN/NOTIFY transport of wake-ups.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tidemill_core::Error;
use tidemill_core::store::{Finding, Severity};
use tidemill_core::wake::{Bus, Transport};
use tokio_postgres::Row;

use super::notify_task::NotifyTask;
use crate::clock::ServerClock;
use crate::connection::{Connector, Pool};
use crate::error::classify;
use crate::sql::IDENTITY;

/// Sends wake-ups between the processes that share a database.
pub(crate) struct NotifyTransport {
    pub(super) pool: Arc<Pool>,
    /// Opens connections for LISTEN, if they have a URL of their own.
    listen: Option<Connector>,
    /// Whether the log says already how wake-ups arrive.
    logged: AtomicBool,
}

impl NotifyTransport {
    pub(crate) fn new(pool: Arc<Pool>, listen: Option<Connector>) -> Self {
        Self { pool, listen, logged: AtomicBool::new(false) }
    }

    pub(super) fn connector(&self) -> &Connector {
        self.listen.as_ref().unwrap_or(&self.pool.connector)
    }

    /// How wake-ups from other processes arrive.
    pub(super) fn mode(&self) -> ListenMode {
        match &self.listen {
            Some(_) => ListenMode::OwnUrl,
            None if self.pool.connector.is_pooled() => ListenMode::Polling,
            None => ListenMode::SameUrl,
        }
    }

    /// Logs once how wake-ups arrive.
    pub(super) fn log_mode(&self) {
        if self.logged.swap(true, Ordering::Relaxed) {
            return;
        }
        match self.mode() {
            ListenMode::Polling => tracing::warn!("wake-ups: {POLLING}"),
            mode => tracing::info!("wake-ups: {}", mode.as_str()),
        }
    }
}

/// How wake-ups from other processes arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenMode {
    /// By LISTEN, on a connection like all the others.
    SameUrl,
    /// By LISTEN, on a connection with a URL of its own.
    OwnUrl,
    /// Not at all.
    Polling,
}

/// What polling means, and what to do about it.
const POLLING: &str = "the connection leads through a pooler, so LISTEN is not used and work from other processes is \
    found by polling, up to 4 s late; add ?listen=postgres://… with a direct URL, or send wake-ups through Redis";

impl ListenMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::SameUrl => "LISTEN/NOTIFY, on one connection per process",
            Self::OwnUrl => "LISTEN/NOTIFY, on one connection per process by the URL in `listen`",
            Self::Polling => POLLING,
        }
    }
}

impl NotifyTransport {
    /// Checks that the URL for LISTEN leads to the database of the store.
    async fn check_url(&self, connector: &Connector) -> Result<Finding, Error> {
        let pool = &self.pool;
        let mut connection = connector.open(&ServerClock::new(), Box::new(|_| {})).await?;
        let identity = pool.call(&IDENTITY)?;
        let asked = connection.query(&identity, &[]);
        let listened = asked.await.map_err(|error| classify("the URL in `listen`", error))?;
        let own = pool.query(&IDENTITY, &[]).await?;
        let identity = |rows: &[Row]| rows.first().map(|row| row.get::<_, String>("identity"));
        let finding = |severity, found: &str| Ok(Finding::new(severity, "wake-ups", found));
        if identity(&listened) != identity(&own) {
            return finding(Severity::Bad, "the URL in `listen` leads to another database");
        }
        match connection.is_pooled {
            true => finding(
                Severity::Warning,
                "the URL in `listen` leads through a pooler: it works in session mode only",
            ),
            false => finding(Severity::Good, ListenMode::OwnUrl.as_str()),
        }
    }
}

impl fmt::Debug for NotifyTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LISTEN/NOTIFY")
    }
}

#[async_trait]
impl Transport for NotifyTransport {
    async fn run(&self, bus: Arc<Bus>) {
        NotifyTask::new(self, bus).run().await;
    }

    async fn checkup(&self) -> Vec<Finding> {
        if let Some(connector) = &self.listen {
            let bad = |error: Error| Finding::new(Severity::Bad, "wake-ups", error.full_message());
            return vec![self.check_url(connector).await.unwrap_or_else(bad)];
        }
        let mode = self.mode();
        let severity = if mode == ListenMode::Polling { Severity::Warning } else { Severity::Good };
        vec![Finding::new(severity, "wake-ups", mode.as_str())]
    }
}

/// The channel of a store. Two stores in one database do not wake each other.
pub(crate) fn channel(pool: &Pool) -> String {
    format!("{}_wake", pool.connector.schema)
}

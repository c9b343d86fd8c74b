//! The context of a command: its configuration and its output.

use std::io;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use serde::Serialize;
use tidemill::Client;

use crate::config::CliConfig;
use crate::connect::{self, Purpose};
use crate::output::{Printer, Screen, TextTable, log};

/// After this time without an answer of the store, a line on stderr says so.
const SLOW_ANSWER: Duration = Duration::from_secs(1);

/// The configuration and the output of a command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: CliConfig,
    /// The printer of results on stdout.
    pub(crate) printer: Printer,
    /// The printer of progress on stderr.
    pub(crate) screen: Screen,
    /// The client, once a command has opened it.
    opened: OnceLock<Client>,
}

impl Context {
    pub(crate) fn new(config: CliConfig, level: log::LogLevel) -> Self {
        let screen = Screen::new();
        log::start(level, config.log_format, &screen);
        Self { printer: Printer::new(config.json), screen, config, opened: OnceLock::new() }
    }

    /// A client of an existing store, for a command that reads.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        self.open(Purpose::Inspect).await
    }

    /// A client of a store that may be created, for a command that enqueues work.
    pub(crate) async fn client_or_new(&self) -> anyhow::Result<Client> {
        self.open(Purpose::Produce).await
    }

    /// A client for a command that does all work in this process. An in-memory store is allowed.
    pub(crate) async fn standalone_client(&self) -> anyhow::Result<Client> {
        self.open(Purpose::SingleProcess).await
    }

    async fn open(&self, purpose: Purpose) -> anyhow::Result<Client> {
        let client = self.await_store(connect::open(&self.config, purpose)).await?;
        Ok(self.opened.get_or_init(|| client).clone())
    }

    /// Awaits a call of the store. If the answer is late, prints a line on stderr.
    pub(crate) async fn await_store<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if let Ok(answer) = tokio::time::timeout(SLOW_ANSWER, &mut answer).await {
            return answer;
        }
        self.screen
            .print_line(&format!("waiting for an answer of {}", connect::describe(&self.config.store.url)));
        answer.await
    }

    /// Prints a listing: one JSON object per line, a table, or `empty_text`.
    pub(crate) fn list<V: Serialize>(
        &self,
        views: &[V],
        more: bool,
        empty_text: &str,
        table: impl FnOnce(&[V]) -> TextTable,
    ) -> io::Result<()> {
        if self.printer.is_json() {
            views.iter().try_for_each(|view| self.printer.json(view))?;
        } else if views.is_empty() {
            self.printer.text(empty_text)?;
        } else {
            self.printer.table(&table(views))?;
        }
        if more {
            self.screen.print_line("there are more; --limit shows them");
        }
        Ok(())
    }

    /// Sends pending wake-ups before this process ends.
    pub(crate) async fn flush(&self) {
        if let Some(client) = self.opened.get() {
            client.flush().await;
        }
    }
}

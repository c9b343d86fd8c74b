//! What a command has at hand: the settings, and where to write.

use std::io;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use serde::Serialize;
use tidemill::Client;

use crate::config::Settings;
use crate::connect::{self, Purpose};
use crate::output::{Out, Screen, Table, log};

/// A store that has not answered after this long is worth a line.
const LATE: Duration = Duration::from_secs(1);

/// What a command has at hand.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    /// Results, on stdout.
    pub(crate) out: Out,
    /// Progress, on stderr.
    pub(crate) screen: Screen,
    /// The store, once a command has opened it.
    opened: OnceLock<Client>,
}

impl Context {
    pub(crate) fn new(settings: Settings, level: log::Level) -> Self {
        let screen = Screen::new();
        log::start(level, settings.log_format, &screen);
        Self { out: Out::new(settings.json), screen, settings, opened: OnceLock::new() }
    }

    /// The store, for a command that only looks at what is there.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        self.open(Purpose::Look).await
    }

    /// The store, for a command that begins something others take up.
    pub(crate) async fn client_or_new(&self) -> anyhow::Result<Client> {
        self.open(Purpose::Begin).await
    }

    /// The store, for a command that does everything by itself.
    pub(crate) async fn own_mill(&self) -> anyhow::Result<Client> {
        self.open(Purpose::Alone).await
    }

    async fn open(&self, purpose: Purpose) -> anyhow::Result<Client> {
        let client = self.answer(connect::open(&self.settings, purpose)).await?;
        Ok(self.opened.get_or_init(|| client).clone())
    }

    /// Awaits an answer of the store. If it is late, a line on stderr says what the command waits for.
    pub(crate) async fn answer<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if let Ok(answer) = tokio::time::timeout(LATE, &mut answer).await {
            return answer;
        }
        self.screen.say(&format!("waiting for an answer of {}", connect::describe(&self.settings.store.url)));
        answer.await
    }

    /// Prints a list: an object a line to programs, a table to people, or `nothing` in words.
    pub(crate) fn list<V: Serialize>(
        &self,
        (views, more): (&[V], bool),
        nothing: &str,
        table: impl FnOnce(&[V]) -> Table,
    ) -> io::Result<()> {
        if self.out.is_json() {
            views.iter().try_for_each(|view| self.out.json(view))?;
        } else if views.is_empty() {
            self.out.text(nothing)?;
        } else {
            self.out.table(&table(views))?;
        }
        if more {
            self.screen.say("there are more; --limit shows them");
        }
        Ok(())
    }

    /// What was announced leaves before this process ends.
    pub(crate) async fn flush(&self) {
        if let Some(client) = self.opened.get() {
            client.store().flush().await;
        }
    }
}

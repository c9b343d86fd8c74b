//! What a command has at hand: the settings, and where to write.

use std::sync::OnceLock;

use tidemill::Mill;

use crate::config::Settings;
use crate::connect::{self, Purpose};
use crate::output::{Out, Screen, log};

/// What a command has at hand.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    /// Results, on stdout.
    pub(crate) out: Out,
    /// Progress, on stderr.
    pub(crate) screen: Screen,
    /// The store, once a command has opened it.
    opened: OnceLock<Mill>,
}

impl Context {
    pub(crate) fn new(settings: Settings, level: log::Level) -> Self {
        let screen = Screen::new();
        log::start(level, &screen);
        Self { out: Out::new(settings.json), screen, settings, opened: OnceLock::new() }
    }

    /// The store, for a command that only looks at what is there.
    pub(crate) async fn mill(&self) -> anyhow::Result<Mill> {
        self.open(Purpose::Look).await
    }

    /// The store, for a command that begins something others take up.
    pub(crate) async fn mill_or_new(&self) -> anyhow::Result<Mill> {
        self.open(Purpose::Begin).await
    }

    /// The store, for a command that does everything by itself.
    pub(crate) async fn own_mill(&self) -> anyhow::Result<Mill> {
        self.open(Purpose::Alone).await
    }

    async fn open(&self, purpose: Purpose) -> anyhow::Result<Mill> {
        let mill = connect::open(&self.settings, purpose).await?;
        Ok(self.opened.get_or_init(|| mill).clone())
    }

    /// What was announced leaves before this process ends.
    pub(crate) async fn flush(&self) {
        if let Some(mill) = self.opened.get() {
            mill.store().flush().await;
        }
    }
}

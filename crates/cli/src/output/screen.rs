//! The lines at the bottom of a terminal that change in place, and everything that scrolls past above them.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::hush::Hush;
use super::style::Style;

/// Progress on stderr.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    lines: MultiProgress,
    /// The terminal's settings, once lines change; shared with the log, which has a screen of its own.
    hush: Arc<OnceLock<Option<Hush>>>,
    live: bool,
    style: Style,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let live = io::stderr().is_terminal();
        Self { lines: MultiProgress::new(), hush: Arc::default(), live, style: Style::of(&io::stderr()) }
    }

    /// Whether lines can change in place.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    pub(crate) fn style(&self) -> &Style {
        &self.style
    }

    /// A new line at the bottom that can change.
    pub(crate) fn line(&self) -> ProgressBar {
        self.hush.get_or_init(Hush::begin);
        let style =
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        self.lines.add(ProgressBar::new_spinner().with_style(style))
    }

    /// Leaves the terminal as it was found.
    pub(crate) fn leave(&self) {
        if let Some(Some(hush)) = self.hush.get() {
            hush.end();
        }
    }

    /// Takes the changing lines away.
    pub(crate) fn clear(&self) {
        let _ = self.lines.clear();
    }

    /// Writes a line that stays.
    pub(crate) fn say(&self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    fn write(&self, bytes: &[u8]) {
        // Whoever closed stderr does not want to hear of it.
        let write = || io::stderr().lock().write_all(bytes);
        let _ = if self.live { self.lines.suspend(write) } else { write() };
    }
}

/// A writer for the log: what it is given appears whole, above the changing lines.
impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Screen::write(self, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

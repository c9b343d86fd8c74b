//! The live lines at the bottom of a terminal, and the lines that scroll above them.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::echo_off::EchoOff;
use super::style::Style;

/// The printer of progress on stderr.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    lines: MultiProgress,
    /// The settings of the terminal, once a live line exists. Shared with the log, which has its
    /// own `Screen`.
    echo_off: Arc<OnceLock<Option<EchoOff>>>,
    live: bool,
    style: Style,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let live = io::stderr().is_terminal();
        Self {
            lines: MultiProgress::new(),
            echo_off: Arc::default(),
            live,
            style: Style::for_stream(&io::stderr()),
        }
    }

    /// Whether stderr is a terminal, so that lines can change in place.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    pub(crate) fn style(&self) -> &Style {
        &self.style
    }

    /// Adds a live line at the bottom.
    pub(crate) fn line(&self) -> ProgressBar {
        self.echo_off.get_or_init(EchoOff::begin);
        let style =
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        self.lines.add(ProgressBar::new_spinner().with_style(style))
    }

    /// Restores the terminal's settings.
    pub(crate) fn restore(&self) {
        if let Some(Some(echo_off)) = self.echo_off.get() {
            echo_off.end();
        }
    }

    /// Removes the live lines.
    pub(crate) fn clear(&self) {
        let _ = self.lines.clear();
    }

    /// Prints a line that stays.
    pub(crate) fn print_line(&self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    fn write(&self, bytes: &[u8]) {
        // A failed write to stderr cannot be reported anywhere.
        let write = || io::stderr().lock().write_all(bytes);
        let _ = if self.live { self.lines.suspend(write) } else { write() };
    }
}

/// The writer of the log: prints messages above the live lines.
impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Screen::write(self, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

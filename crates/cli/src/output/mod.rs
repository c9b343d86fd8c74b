//! Output of commands: results on stdout, as text or JSON.

mod echo_off;
pub(crate) mod job;
pub(crate) mod log;
pub(crate) mod run;
mod screen;
pub(crate) mod session;
mod style;
mod table;
pub(crate) mod time;
pub(crate) mod timeline;
pub(crate) mod worker;

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

pub(crate) use screen::Screen;
pub(crate) use style::{Colour, Style, printable};
pub(crate) use table::{Cell, TextTable, thousands};

/// The printer of results.
///
/// A reader that closes the pipe (`| head -1`) stops the output, but not the command. The exit code
/// still says whether the command succeeded.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
    style: Style,
    /// Whether stdout is a terminal. Control characters in stored data must not reach a terminal; a
    /// pipe or a file gets the exact bytes.
    terminal: bool,
    /// Whether the reader has closed the pipe.
    closed: AtomicBool,
}

impl Printer {
    pub(crate) fn new(json: bool) -> Self {
        let (style, terminal) = (Style::for_stream(&io::stdout()), io::stdout().is_terminal());
        Self { json, style, terminal, closed: AtomicBool::new(false) }
    }

    /// Whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn style(&self) -> &Style {
        &self.style
    }

    /// Prints one result: `text`, or `value` as JSON.
    pub(crate) fn result(&self, text: impl Display, value: &impl Serialize) -> io::Result<()> {
        if self.json { self.json(value) } else { self.text(text) }
    }

    /// Prints text. Prints nothing in JSON mode.
    pub(crate) fn text(&self, text: impl Display) -> io::Result<()> {
        if self.json { Ok(()) } else { self.write(format!("{text}\n").as_bytes()) }
    }

    /// Prints one result from stored data: without control characters to a terminal, byte for byte
    /// to a pipe.
    pub(crate) fn stored(&self, text: &str, value: &impl Serialize) -> io::Result<()> {
        if self.terminal { self.result(printable(text), value) } else { self.result(text, value) }
    }

    /// Prints a table. Prints nothing in JSON mode.
    pub(crate) fn table(&self, table: &TextTable) -> io::Result<()> {
        if self.json { Ok(()) } else { self.write(table.render(&self.style).as_bytes()) }
    }

    /// Prints one JSON object on a line of its own.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.write(&line)
    }

    /// Prints a document in either mode.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        match io::stdout().lock().write_all(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            written => written,
        }
    }
}

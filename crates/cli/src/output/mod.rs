//! What a command prints: results on stdout, as text for people or as JSON for programs.

mod hush;
pub(crate) mod job;
pub(crate) mod log;
pub(crate) mod member;
pub(crate) mod run;
mod screen;
pub(crate) mod session;
mod style;
mod table;
pub(crate) mod time;
pub(crate) mod timeline;

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

pub(crate) use screen::Screen;
pub(crate) use style::{Colour, Style, printable};
pub(crate) use table::{Cell, Table, thousands};

/// Where results go.
///
/// A reader that closes the pipe (`| head -1`) stops the output, never the work: the command carries on, and its exit
/// code says whether everything was done.
#[derive(Debug)]
pub(crate) struct Out {
    json: bool,
    style: Style,
    /// Control characters in stored data would reach the terminal; a pipe or a file gets the exact bytes.
    terminal: bool,
    /// Whether the reader has closed the pipe.
    closed: AtomicBool,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let (style, terminal) = (Style::of(&io::stdout()), io::stdout().is_terminal());
        Self { json, style, terminal, closed: AtomicBool::new(false) }
    }

    /// Whether a program reads this.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn style(&self) -> &Style {
        &self.style
    }

    /// Prints one result: `text` to people, `value` to programs.
    pub(crate) fn result(&self, text: impl Display, value: &impl Serialize) -> io::Result<()> {
        if self.json { self.json(value) } else { self.text(text) }
    }

    /// Prints lines for people; programs do not get them.
    pub(crate) fn text(&self, text: impl Display) -> io::Result<()> {
        if self.json { Ok(()) } else { self.write(format!("{text}\n").as_bytes()) }
    }

    /// Prints one result that others wrote: to a terminal without control characters, to a pipe byte for byte.
    pub(crate) fn stored(&self, text: &str, value: &impl Serialize) -> io::Result<()> {
        if self.terminal { self.result(printable(text), value) } else { self.result(text, value) }
    }

    /// Prints a table for people; programs do not get it.
    pub(crate) fn table(&self, table: &Table) -> io::Result<()> {
        if self.json { Ok(()) } else { self.write(table.render(&self.style).as_bytes()) }
    }

    /// Prints one object on a line of its own.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.write(&line)
    }

    /// Prints a document, whatever form was asked for.
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

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
use std::io::{self, Write};

use serde::Serialize;

pub(crate) use screen::Screen;
pub(crate) use style::{Colour, Style, printable};
pub(crate) use table::{Cell, Table, thousands};

/// Where results go.
#[derive(Debug)]
pub(crate) struct Out {
    json: bool,
    style: Style,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, style: Style::of(&io::stdout()) }
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
        if self.json { Ok(()) } else { writeln!(io::stdout().lock(), "{text}") }
    }

    /// Prints a table for people; programs do not get it.
    pub(crate) fn table(&self, table: &Table) -> io::Result<()> {
        if self.json { Ok(()) } else { io::stdout().lock().write_all(table.render(&self.style).as_bytes()) }
    }

    /// Prints one object on a line of its own.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line)
    }
}

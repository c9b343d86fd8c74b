//! The database to open and how to open it.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::store::Durability;
use tidemill_core::wake::Transport;
use tidemill_core::{Clock, Error};

/// The database to open and how to open it.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Location of the database.
    pub path: Location,
    /// The clock of the store. The default is the machine's clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// Sends wake-ups to other processes. Without it, other processes detect writes by polling
    /// SQLite's `data_version`.
    pub transport: Option<Arc<dyn Transport>>,
}

/// Location of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In this file. It is created if it does not exist.
    File(PathBuf),
    /// In this process's memory, for this store only.
    Memory,
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it is on disk.
    #[default]
    Full,
    /// When the operating system has it. A power cut may lose the most recent commits.
    Normal,
}

impl SqliteOptions {
    /// A database in this file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(Location::File(path.into()))
    }

    /// A database in memory.
    pub fn memory() -> Self {
        Self::new(Location::Memory)
    }

    fn new(path: Location) -> Self {
        Self { path, clock: None, synchronous: Synchronous::Full, transport: None }
    }

    /// Returns these options with this clock.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Parses `sqlite:app.db`, `sqlite:///abs/path.db` or `sqlite::memory:`. A file may be followed
    /// by `?synchronous=normal` or `?synchronous=full`.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let invalid = |why: &str| Error::Invalid(format!("`{url}` is no SQLite store: {why}"));
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| invalid("it does not start with `sqlite:`"))?;
        if rest == ":memory:" {
            return Ok(Self::memory());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(invalid("it names no file; write `sqlite:app.db` or `sqlite::memory:`"));
        }
        if path.contains('\0') {
            return Err(invalid("its path contains a zero byte"));
        }
        let synchronous = match query {
            "" | "synchronous=full" => Synchronous::Full,
            "synchronous=normal" => Synchronous::Normal,
            _ => return Err(invalid("its only option is `?synchronous=full` or `?synchronous=normal`")),
        };
        Ok(Self { synchronous, ..Self::file(path) })
    }

    pub(crate) fn durability(&self) -> Durability {
        match (&self.path, self.synchronous) {
            (Location::Memory, _) => Durability::Volatile,
            (Location::File(_), Synchronous::Normal) => Durability::Process,
            (Location::File(_), Synchronous::Full) => Durability::Fsync,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> Location {
        SqliteOptions::parse(url).unwrap().path
    }

    #[test]
    fn reads_relative_and_absolute_paths_and_memory() {
        assert_eq!(path("sqlite:app.db"), Location::File("app.db".into()));
        assert_eq!(path("sqlite://app.db"), Location::File("app.db".into()));
        assert_eq!(path("sqlite:/abs/path.db"), Location::File("/abs/path.db".into()));
        assert_eq!(path("sqlite:///abs/path.db"), Location::File("/abs/path.db".into()));
        assert_eq!(path("sqlite::memory:"), Location::Memory);
    }

    #[test]
    fn the_durability_follows_from_the_options() {
        let durability = |url| SqliteOptions::parse(url).unwrap().durability();
        assert_eq!(durability("sqlite:app.db"), Durability::Fsync);
        assert_eq!(durability("sqlite:app.db?synchronous=normal"), Durability::Process);
        assert_eq!(durability("sqlite::memory:"), Durability::Volatile);
    }

    #[test]
    fn a_wrong_url_is_named_in_its_error() {
        for url in ["", "redis://x", "sqlite:", "sqlite://", "sqlite:a?mode=ro", "sqlite:a\0b"] {
            let error = SqliteOptions::parse(url).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{url}` is no SQLite store: ")), "{error}");
        }
    }
}

//! Which database to open, and how.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::store::Durability;
use tidemill_core::wake::Transport;
use tidemill_core::{Clock, Error};

/// Which database to open, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the database is.
    pub path: Location,
    /// Whose time counts; the machine's if nobody says otherwise.
    pub clock: Option<Arc<dyn Clock>>,
    /// When a commit counts as done.
    pub synchronous: Synchronous,
    /// Who tells other processes of what happens here. Without anybody they notice that something was written.
    pub courier: Option<Arc<dyn Transport>>,
}

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In this file, which is made if it is not there.
    File(PathBuf),
    /// In this process's memory, for this store alone.
    Memory,
}

/// When a commit counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it is on disk.
    #[default]
    Full,
    /// When the operating system has it: a power cut may take the last moments with it.
    Normal,
}

impl Options {
    /// A database in this file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::at(Location::File(path.into()))
    }

    /// A database in memory.
    pub fn memory() -> Self {
        Self::at(Location::Memory)
    }

    fn at(path: Location) -> Self {
        Self { path, clock: None, synchronous: Synchronous::Full, courier: None }
    }

    /// The same with this clock.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Reads `sqlite:app.db`, `sqlite:///abs/path.db` or `sqlite::memory:`, with `?synchronous=normal` or
    /// `?synchronous=full` behind a file if wanted.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Invalid(format!("`{url}` is no SQLite store: {why}"));
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| wrong("it does not start with `sqlite:`"))?;
        if rest == ":memory:" {
            return Ok(Self::memory());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(wrong("it names no file; write `sqlite:app.db` or `sqlite::memory:`"));
        }
        if path.contains('\0') {
            return Err(wrong("its path holds a zero byte"));
        }
        let synchronous = match query {
            "" | "synchronous=full" => Synchronous::Full,
            "synchronous=normal" => Synchronous::Normal,
            _ => return Err(wrong("its only option is `?synchronous=full` or `?synchronous=normal`")),
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
        Options::parse(url).unwrap().path
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
        let durability = |url| Options::parse(url).unwrap().durability();
        assert_eq!(durability("sqlite:app.db"), Durability::Fsync);
        assert_eq!(durability("sqlite:app.db?synchronous=normal"), Durability::Process);
        assert_eq!(durability("sqlite::memory:"), Durability::Volatile);
    }

    #[test]
    fn a_wrong_url_is_named_in_its_error() {
        for url in ["", "redis://x", "sqlite:", "sqlite://", "sqlite:a?mode=ro", "sqlite:a\0b"] {
            let error = Options::parse(url).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{url}` is no SQLite store: ")), "{error}");
        }
    }
}

//! What SQLite says, sorted by what the caller does about it. The only place that looks at its codes.

use std::path::Path;

use rusqlite::{ErrorCode, ffi};
use tidemill_core::Error;
use tidemill_core::name::InvalidName;

/// Why a piece of work failed: at SQLite, or at what it found there.
#[derive(Debug)]
pub(crate) enum Failure {
    Sqlite(rusqlite::Error),
    Store(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Failure {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// A name that comes out of the database was checked on its way in.
impl From<InvalidName> for Failure {
    fn from(error: InvalidName) -> Self {
        Self::Store(Error::Corrupt(error.to_string()))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Sqlite(error) => classify(&error),
            Failure::Store(error) => error,
        }
    }
}

/// What `error` means to a caller.
pub(crate) fn classify(error: &rusqlite::Error) -> Error {
    use rusqlite::Error as E;
    match error {
        E::SqliteFailure(code, message) => {
            by_code(*code, message.clone().unwrap_or_else(|| code.to_string()))
        }
        E::SqlInputError { error, msg, .. } => by_code(*error, msg.clone()),
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..)
        | E::InvalidColumnType(..)
        | E::QueryReturnedNoRows => Error::Corrupt(error.to_string()),
        E::InvalidPath(path) => Error::Invalid(format!("`{}` is no path SQLite can open", path.display())),
        _ => Error::Unsuitable(error.to_string()),
    }
}

fn by_code(code: ffi::Error, message: String) -> Error {
    use ErrorCode as C;
    match code.code {
        // The file was moved or deleted under an open connection: not a lack of room.
        _ if code.extended_code == ffi::SQLITE_READONLY_DBMOVED => unavailable(message),
        C::DiskFull | C::ReadOnly | C::OutOfMemory => Error::Full(message),
        C::DatabaseCorrupt => Error::Corrupt(message),
        C::NotADatabase => Error::Unsuitable(format!("the file is not a SQLite database ({message})")),
        C::PermissionDenied | C::AuthorizationForStatementDenied => Error::Denied(message),
        C::TooBig => Error::Invalid(message),
        C::DatabaseBusy
        | C::DatabaseLocked
        | C::FileLockingProtocolFailed
        | C::SystemIoFailure
        | C::CannotOpen
        | C::OperationInterrupted
        | C::OperationAborted
        | C::SchemaChanged => unavailable(message),
        _ => Error::Unsuitable(message),
    }
}

fn unavailable(message: String) -> Error {
    Error::Unavailable { message, source: None }
}

/// The same error, saying which file it is about.
pub(crate) fn about(path: &Path, error: Error) -> Error {
    let say = |message: String| format!("`{}`: {message}", path.display());
    match error {
        Error::Unavailable { message, source } => Error::Unavailable { message: say(message), source },
        Error::Full(message) => Error::Full(say(message)),
        Error::Denied(message) => Error::Denied(say(message)),
        Error::Unsuitable(message) => Error::Unsuitable(say(message)),
        Error::Corrupt(message) => Error::Corrupt(say(message)),
        other => other,
    }
}

impl Failure {
    /// Whether the disk had no room.
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }
}

impl Failure {
    /// Whether what is stored makes no sense: it cannot be read, or has no room for what must be added to it.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, Error::Corrupt(_)),
            Self::Sqlite(error) => {
                let clash = error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation);
                // A file that is damaged as such is not one row's fault.
                clash || (error.sqlite_error_code().is_none() && matches!(classify(error), Error::Corrupt(_)))
            }
        }
    }
}

/// Whether someone else has the file just now, so that trying again helps.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    use ErrorCode as C;
    matches!(
        error.sqlite_error_code(),
        Some(C::DatabaseBusy | C::DatabaseLocked | C::FileLockingProtocolFailed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32) -> Error {
        classify(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn an_error_is_sorted_by_what_its_caller_does() {
        assert!(matches!(error(ffi::SQLITE_FULL), Error::Full(_)));
        assert!(matches!(error(ffi::SQLITE_READONLY), Error::Full(_)));
        assert!(matches!(error(ffi::SQLITE_READONLY_DBMOVED), Error::Unavailable { .. }));
        assert!(matches!(error(ffi::SQLITE_CORRUPT), Error::Corrupt(_)));
        assert!(matches!(error(ffi::SQLITE_NOTADB), Error::Unsuitable(_)));
        assert!(matches!(error(ffi::SQLITE_BUSY), Error::Unavailable { .. }));
        assert!(matches!(error(ffi::SQLITE_PERM), Error::Denied(_)));
    }
}

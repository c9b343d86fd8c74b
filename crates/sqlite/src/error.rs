//! Classification of SQLite's errors by what the caller does about them. The only file that reads
//! SQLite's error codes.

use std::path::Path;

use rusqlite::{ErrorCode, ffi};
use tidemill_core::Error;
use tidemill_core::name::InvalidName;

/// Why a request failed: an error of SQLite, or an error of the store about the data it read.
#[derive(Debug)]
pub(crate) enum RequestError {
    Sqlite(rusqlite::Error),
    Store(Error),
}

impl From<rusqlite::Error> for RequestError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<rusqlite::types::FromSqlError> for RequestError {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Names are checked before they are stored, so an invalid name in the database is damage.
impl From<InvalidName> for RequestError {
    fn from(error: InvalidName) -> Self {
        Self::Store(Error::Corrupt(error.to_string()))
    }
}

impl From<RequestError> for Error {
    fn from(failure: RequestError) -> Self {
        match failure {
            RequestError::Sqlite(error) => classify(&error),
            RequestError::Store(error) => error,
        }
    }
}

/// Classifies `error` by what the caller does about it.
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
        // The file was moved or deleted under an open connection. This is not a lack of disk space.
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

/// Adds the path of the database file to the message of an error.
pub(crate) fn with_path(path: &Path, error: Error) -> Error {
    let prefixed = |message: String| format!("`{}`: {message}", path.display());
    match error {
        Error::Unavailable { message, source } => Error::Unavailable { message: prefixed(message), source },
        Error::Full(message) => Error::Full(prefixed(message)),
        Error::Denied(message) => Error::Denied(prefixed(message)),
        Error::Unsuitable(message) => Error::Unsuitable(prefixed(message)),
        Error::Corrupt(message) => Error::Corrupt(prefixed(message)),
        other => other,
    }
}

impl RequestError {
    /// Whether the disk had no space left.
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }

    /// Whether the stored data is damaged: it cannot be read, or a constraint forbids what must be
    /// added to it.
    pub(crate) fn is_corruption(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, Error::Corrupt(_)),
            Self::Sqlite(error) => {
                let violation = error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation);
                // A corrupt file as a whole is not the fault of one row.
                violation
                    || (error.sqlite_error_code().is_none() && matches!(classify(error), Error::Corrupt(_)))
            }
        }
    }
}

/// Whether another connection holds a lock on the file, so that a retry can succeed.
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
    fn an_error_is_classified_by_what_its_caller_does() {
        assert!(matches!(error(ffi::SQLITE_FULL), Error::Full(_)));
        assert!(matches!(error(ffi::SQLITE_READONLY), Error::Full(_)));
        assert!(matches!(error(ffi::SQLITE_READONLY_DBMOVED), Error::Unavailable { .. }));
        assert!(matches!(error(ffi::SQLITE_CORRUPT), Error::Corrupt(_)));
        assert!(matches!(error(ffi::SQLITE_NOTADB), Error::Unsuitable(_)));
        assert!(matches!(error(ffi::SQLITE_BUSY), Error::Unavailable { .. }));
        assert!(matches!(error(ffi::SQLITE_PERM), Error::Denied(_)));
    }
}

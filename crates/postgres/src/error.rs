//! Classification of PostgreSQL's errors by what the caller does about them. The only file that
//! reads SQLSTATEs.

use tidemill_core::Error;
use tidemill_core::store::BoxError;

/// The SQLSTATE with which the schema's functions report that the lease is not the current one.
pub(crate) const LEASE_LOST: &str = "TM001";
/// A chain that a job is to wait for does not exist.
const NOT_FOUND: &str = "TM002";
/// The request is invalid.
const INVALID: &str = "TM003";

/// Classifies an error that occurred during `doing`.
pub(crate) fn classify(doing: &str, error: tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else {
        return Error::unanswered(doing, error);
    };
    let (code, message) = (db.code().code().to_owned(), db.message().to_owned());
    classify_code(doing, &code, message, error)
}

/// Classifies an error of the server with this code and message.
fn classify_code(doing: &str, code: &str, message: String, error: impl Into<BoxError>) -> Error {
    let described = format!("{doing}: {message}");
    match error_class(code) {
        // Messages of our own functions. `Error::NotFound` adds "not found" itself.
        _ if code == NOT_FOUND => Error::NotFound(message.trim_end_matches(" not found").to_owned()),
        _ if code == INVALID => Error::Invalid(message),
        ErrorClass::Unavailable => Error::unavailable(doing, error),
        ErrorClass::Unanswered => Error::unanswered(doing, error),
        ErrorClass::Full => Error::Full(described),
        ErrorClass::Denied => Error::Denied(described),
        ErrorClass::Unsuitable => Error::Unsuitable(described),
        ErrorClass::Invalid => Error::Invalid(described),
        ErrorClass::Corrupt => Error::Corrupt(described),
    }
}

/// Classifies an error of sqlx. Errors of the server are classified by their code.
#[cfg(feature = "sqlx")]
pub(crate) fn classify_sqlx(error: sqlx::Error) -> Error {
    let doing = "a transaction of the user's";
    let Some(code) = error.as_database_error().and_then(|db| db.code()).map(|code| code.into_owned()) else {
        return Error::unavailable(doing, error);
    };
    let message = error.as_database_error().map(|db| db.message().to_owned()).unwrap_or_default();
    classify_code(doing, &code, message, error)
}

/// Whether the types that a statement was sent with may not be those of the schema any more.
pub(crate) fn may_be_stale_type(error: &tokio_postgres::Error) -> bool {
    // No such function or type, another type, and the internal error of a type that was looked up
    // in vain.
    error.code().is_some_and(|code| matches!(code.code(), "42883" | "42704" | "42804" | "XX000"))
}

enum ErrorClass {
    Unavailable,
    Unanswered,
    Full,
    Denied,
    Unsuitable,
    Invalid,
    Corrupt,
}

fn error_class(code: &str) -> ErrorClass {
    match (code.get(..2).unwrap_or_default(), code) {
        // Too many connections is temporary. A full disk, no memory or a read-only server rejects
        // writes only.
        (_, "53300") => ErrorClass::Unavailable,
        ("53" | "54", _) | (_, "25006" | "58030") => ErrorClass::Full,
        (_, "42501") | ("28", _) => ErrorClass::Denied,
        // No such database, schema, table, column or function, or a feature that this server does
        // not have.
        (_, "3D000" | "3F000" | "42P01" | "42P07" | "42703" | "42883" | "42704" | "0A000") => {
            ErrorClass::Unsuitable
        }
        ("22" | "23", _) => ErrorClass::Invalid,
        (_, "XX001" | "XX002") => ErrorClass::Corrupt,
        // A connection that is cut (08) or terminated may have committed before.
        ("08", _) | (_, "57P01" | "57P02" | "57P05") => ErrorClass::Unanswered,
        // Timeouts, deadlocks, conflicts (40) and unknown codes: the statement was rolled back.
        _ => ErrorClass::Unavailable,
    }
}

/// Whether an insert violated a unique constraint.
pub(crate) fn is_unique_violation(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}

/// Whether the transaction had failed before this statement and can only be rolled back.
pub(crate) fn has_failed_before(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::IN_FAILED_SQL_TRANSACTION)
}

/// Whether a statement timed out on a lock of another transaction.
pub(crate) fn is_locked(error: &Error) -> bool {
    let Error::Unavailable { source: Some(source), .. } = error else { return false };
    let code = source.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    code == Some(&tokio_postgres::error::SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the connection cannot be reused after this error: it is cut, or its prepared statements
/// are invalid.
pub(crate) fn breaks_connection(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none_or(|db| {
        let code = db.code().code();
        ["08", "57", "26", "0A", "25"].iter().any(|class| code.starts_with(class))
    })
}

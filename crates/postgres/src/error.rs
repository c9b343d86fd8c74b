//! From what PostgreSQL says to what the caller does about it. The one place that knows SQLSTATEs.

use tidemill_core::Error;
use tidemill_core::store::BoxError;

/// What functions in the schema fail with: the lease is not the current one.
pub(crate) const LEASE_LOST: &str = "TM001";
/// A chain that is to be waited for is not there.
const NOT_FOUND: &str = "TM002";
/// What is asked for cannot be done.
const INVALID: &str = "TM003";

/// What an error during `doing` means.
pub(crate) fn classify(doing: &str, error: tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else {
        return Error::unanswered(doing, error);
    };
    let (code, message) = (db.code().code().to_owned(), db.message().to_owned());
    judge(doing, &code, message, error)
}

/// What it means that the server has said `message` with this code.
fn judge(doing: &str, code: &str, message: String, error: impl Into<BoxError>) -> Error {
    let said = format!("{doing}: {message}");
    match meaning(code) {
        // What a function of ours says, in its own words.
        // The error adds the rest itself.
        _ if code == NOT_FOUND => Error::NotFound(message.trim_end_matches(" not found").to_owned()),
        _ if code == INVALID => Error::Invalid(message),
        Meaning::Unavailable => Error::unavailable(doing, error),
        Meaning::Unanswered => Error::unanswered(doing, error),
        Meaning::Full => Error::Full(said),
        Meaning::Denied => Error::Denied(said),
        Meaning::Unsuitable => Error::Unsuitable(said),
        Meaning::Invalid => Error::Invalid(said),
        Meaning::Corrupt => Error::Corrupt(said),
    }
}

/// What an error of sqlx means. The server's own words are judged as ever.
#[cfg(feature = "sqlx")]
pub(crate) fn classify_sqlx(error: sqlx::Error) -> Error {
    let doing = "a transaction of the user's";
    let Some(code) = error.as_database_error().and_then(|db| db.code()).map(|code| code.into_owned()) else {
        return Error::unavailable(doing, error);
    };
    let message = error.as_database_error().map(|db| db.message().to_owned()).unwrap_or_default();
    judge(doing, &code, message, error)
}

enum Meaning {
    Unavailable,
    Unanswered,
    Full,
    Denied,
    Unsuitable,
    Invalid,
    Corrupt,
}

fn meaning(code: &str) -> Meaning {
    match (code.get(..2).unwrap_or_default(), code) {
        // Too many connections passes; a full disk, no memory or a read-only server refuses writes only.
        (_, "53300") => Meaning::Unavailable,
        ("53" | "54", _) | (_, "25006" | "58030") => Meaning::Full,
        (_, "42501") | ("28", _) => Meaning::Denied,
        // No such database, schema, table, column or function; a feature this server does not have.
        (_, "3D000" | "3F000" | "42P01" | "42P07" | "42703" | "42883" | "42704" | "0A000") => {
            Meaning::Unsuitable
        }
        ("22" | "23", _) => Meaning::Invalid,
        (_, "XX001" | "XX002") => Meaning::Corrupt,
        // A connection that is cut (08) or terminated may have committed before.
        ("08", _) | (_, "57P01" | "57P02" | "57P05") => Meaning::Unanswered,
        // Timeouts, deadlocks and conflicts (40), and what nobody foresaw: the statement was rolled back.
        _ => Meaning::Unavailable,
    }
}

/// Whether an id that was promised to be new is not.
pub(crate) fn is_taken(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}

/// Whether the transaction had failed before this, and can only be rolled back.
pub(crate) fn has_failed_before(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::IN_FAILED_SQL_TRANSACTION)
}

/// Whether it was given up because of what others have locked.
pub(crate) fn is_locked(error: &Error) -> bool {
    let Error::Unavailable { source: Some(source), .. } = error else { return false };
    let said = source.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    said == Some(&tokio_postgres::error::SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the connection is no good after this error: it is cut, or its prepared statements are.
pub(crate) fn spoils(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none_or(|db| {
        let code = db.code().code();
        ["08", "57", "26", "0A", "25"].iter().any(|class| code.starts_with(class))
    })
}

//! Part of a transaction that takes place as a whole or not at all, whatever becomes of the rest.

use rusqlite::Connection;
use tidemill_core::Error;

use crate::error::Failure;

/// Runs `work` inside the open transaction. If it fails, nothing of it has happened, and the transaction goes on.
///
/// The outer error is one of the transaction itself.
pub(crate) fn apart<T, E>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<Result<T, E>, Failure> {
    run(connection, "SAVEPOINT tidemill_work")?;
    let result = work();
    if connection.is_autocommit() {
        // Some errors roll everything back by themselves; then the error at hand says why.
        return if result.is_err() { Ok(result) } else { Err(ended()) };
    }
    if result.is_err() {
        run(connection, "ROLLBACK TO tidemill_work")?;
    }
    run(connection, "RELEASE tidemill_work")?;
    Ok(result)
}

/// The transaction is over although nobody has committed it.
pub(crate) fn ended() -> Failure {
    Error::Unavailable { message: "the work ended the transaction it was part of".into(), source: None }
        .into()
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

//! Savepoints: a part of a transaction that can fail without failing the rest.

use rusqlite::Connection;
use tidemill_core::Error;

use crate::error::RequestError;

/// Runs `work` inside the open transaction. If it fails, its changes are undone and the transaction
/// stays open.
///
/// The outer error is an error of the transaction itself.
pub(crate) fn in_savepoint<T, E>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<Result<T, E>, RequestError> {
    run(connection, "SAVEPOINT tidemill_work")?;
    let result = work();
    if connection.is_autocommit() {
        // Some errors roll back the whole transaction. Then the error of the work is the reason.
        return if result.is_err() { Ok(result) } else { Err(transaction_ended()) };
    }
    if result.is_err() {
        run(connection, "ROLLBACK TO tidemill_work")?;
    }
    run(connection, "RELEASE tidemill_work")?;
    Ok(result)
}

/// The error for a transaction that ended although nobody committed it.
pub(crate) fn transaction_ended() -> RequestError {
    Error::Unavailable { message: "the work ended the transaction it was part of".into(), source: None }
        .into()
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

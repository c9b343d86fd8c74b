//! The schema and its versions. The file may belong to the user and contain other tables. Ours have
//! the prefix `tidemill_`, and one of them stores the schema version.

use rusqlite::Connection;
use tidemill_core::Error;

use crate::connection::open::retry_while_busy;
use crate::error::RequestError;

/// Stores the schema version of the file.
const SET_VERSION: &str = "UPDATE tidemill_schema SET version = ?1";

/// Whether the file contains our tables. It only reads.
const SCHEMA_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tidemill_schema')";

/// The schema version of the file.
const READ_VERSION: &str = "SELECT version FROM tidemill_schema";

/// Every migration, in order. A released migration is never changed.
const MIGRATIONS: [&str; 3] = [
    include_str!("../migrations/0001_jobs.sql"),
    include_str!("../migrations/0002_runs.sql"),
    include_str!("../migrations/0003_fleet.sql"),
];

/// The `application_id` of files from the time when Tidemill used a file of its own: "tide" in
/// ASCII.
const LEGACY_APPLICATION_ID: i64 = 0x7469_6465;

/// Migrates the file to this program's schema version.
pub(crate) fn migrate(connection: &Connection) -> Result<(), Error> {
    // Most opens find the current version and should not wait for a lock to learn that.
    if read_layout(connection)? == Layout::Current(MIGRATIONS.len()) {
        return Ok(());
    }
    // Immediate: of several processes that open a new file at once, one migrates it and the others
    // wait.
    retry_while_busy(|| connection.execute_batch("BEGIN IMMEDIATE")).map_err(RequestError::from)?;
    let done = run_missing(connection).and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if done.is_err() && !connection.is_autocommit() {
        // The first error is the one to report.
        let _ = connection.execute_batch("ROLLBACK");
    }
    Ok(done?)
}

fn run_missing(connection: &Connection) -> Result<(), RequestError> {
    let layout = read_layout(connection)?;
    let from = if let Layout::Current(version) = layout { version } else { 0 };
    for migration in &MIGRATIONS[from..] {
        connection.execute_batch(migration)?;
    }
    if layout == Layout::Legacy {
        connection.execute_batch(include_str!("../migrations/former.sql"))?;
    }
    connection.execute(SET_VERSION, [MIGRATIONS.len() as i64])?;
    Ok(())
}

/// The tables of ours that a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// None, whatever else the file contains.
    None,
    /// Tables with plain names, in a file of our own.
    Legacy,
    /// Prefixed tables of this schema version.
    Current(usize),
}

fn read_layout(connection: &Connection) -> Result<Layout, RequestError> {
    if retry_while_busy(|| connection.query_row(SCHEMA_EXISTS, [], |row| row.get(0)))? {
        let version = READ_VERSION;
        let version = retry_while_busy(|| connection.query_row(version, [], |row| row.get::<_, i64>(0)))?;
        let known = usize::try_from(version).ok().filter(|version| *version <= MIGRATIONS.len());
        return Ok(known.map(Layout::Current).ok_or_else(|| newer_version(version))?);
    }
    let number =
        |pragma| retry_while_busy(|| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)));
    match (number("application_id")?, number("user_version")?) {
        (LEGACY_APPLICATION_ID, 1) => Ok(Layout::Legacy),
        (LEGACY_APPLICATION_ID, version) if version > 1 => Err(newer_version(version).into()),
        _ => Ok(Layout::None),
    }
}

fn newer_version(version: i64) -> Error {
    let known = MIGRATIONS.len();
    Error::Unsuitable(format!(
        "its tables have version {version}, created by a newer Tidemill; this one knows up to {known}"
    ))
}

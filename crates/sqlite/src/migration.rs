//! The schema and its versions. Which one a file has is its `user_version`; whose it is, its `application_id`.

use rusqlite::Connection;
use tidemill_core::Error;

use crate::connection::patiently;
use crate::error::Failure;

/// Every step, in order. A step that has been released is never changed.
const STEPS: [&str; 1] = [include_str!("../migrations/0001_jobs.sql")];

/// Marks a file as ours: "tide" in ASCII. A file of another program is never touched.
const APPLICATION: i32 = 0x7469_6465;

/// Brings the file up to this program's version.
pub(crate) fn migrate(connection: &Connection) -> Result<(), Error> {
    // Most opens find everything done, and should not wait for a lock to learn it.
    if examine(connection)? == STEPS.len() {
        return Ok(());
    }
    // Immediate: of several processes that open a new file at once, one makes it and the others wait.
    patiently(|| connection.execute_batch("BEGIN IMMEDIATE")).map_err(Failure::from)?;
    let done = climb(connection).and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if done.is_err() && !connection.is_autocommit() {
        // The first error is the one to tell.
        let _ = connection.execute_batch("ROLLBACK");
    }
    Ok(done?)
}

fn climb(connection: &Connection) -> Result<(), Failure> {
    for step in &STEPS[examine(connection)?..] {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)?;
    Ok(connection.pragma_update(None, "user_version", STEPS.len() as i64)?)
}

/// The version of the file, if it is one this program can work with.
fn examine(connection: &Connection) -> Result<usize, Failure> {
    let number =
        |pragma| patiently(|| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)));
    let (version, application) = (number("user_version")?, number("application_id")?);
    let tables =
        || connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    let known = usize::try_from(version).ok().filter(|version| *version <= STEPS.len());
    match known {
        Some(0) if application == 0 && patiently(tables)? == 0 => Ok(0),
        Some(version) if version > 0 && application == i64::from(APPLICATION) => Ok(version),
        None if application == i64::from(APPLICATION) => Err(newer(version).into()),
        _ => Err(foreign().into()),
    }
}

fn newer(version: i64) -> Error {
    let known = STEPS.len();
    Error::Unsuitable(format!(
        "the file has schema version {version}, made by a newer Tidemill; this one knows up to {known}"
    ))
}

fn foreign() -> Error {
    Error::Unsuitable("the database belongs to another program; give Tidemill a file of its own".into())
}

//! The schema and its versions. The file is the user's, with tables of their own: ours have a prefix, and which
//! version they have is written in one of them.

use rusqlite::Connection;
use tidemill_core::Error;

use crate::connection::patiently;
use crate::error::Failure;

/// Every step, in order. A step that has been released is never changed.
const STEPS: [&str; 3] = [
    include_str!("../migrations/0001_jobs.sql"),
    include_str!("../migrations/0002_runs.sql"),
    include_str!("../migrations/0003_fleet.sql"),
];

/// What a file was marked with when Tidemill had one of its own: "tide" in ASCII.
const APPLICATION: i64 = 0x7469_6465;

/// Brings the file up to this program's version.
pub(crate) fn migrate(connection: &Connection) -> Result<(), Error> {
    // Most opens find everything done, and should not wait for a lock to learn it.
    if examine(connection)? == Layout::Ours(STEPS.len()) {
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
    let layout = examine(connection)?;
    let from = if let Layout::Ours(version) = layout { version } else { 0 };
    for step in &STEPS[from..] {
        connection.execute_batch(step)?;
    }
    if layout == Layout::Former {
        connection.execute_batch(include_str!("../migrations/former.sql"))?;
    }
    connection.execute(include_str!("../sql/schema/climb.sql"), [STEPS.len() as i64])?;
    Ok(())
}

/// What a file holds of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Nothing, whatever else it holds.
    None,
    /// Tables with plain names, in a file of our own.
    Former,
    /// Tables of this version.
    Ours(usize),
}

fn examine(connection: &Connection) -> Result<Layout, Failure> {
    let present = include_str!("../sql/schema/present.sql");
    if patiently(|| connection.query_row(present, [], |row| row.get(0)))? {
        let version = include_str!("../sql/schema/version.sql");
        let version = patiently(|| connection.query_row(version, [], |row| row.get::<_, i64>(0)))?;
        let known = usize::try_from(version).ok().filter(|version| *version <= STEPS.len());
        return Ok(known.map(Layout::Ours).ok_or_else(|| newer(version))?);
    }
    let number =
        |pragma| patiently(|| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION, 1) => Ok(Layout::Former),
        (APPLICATION, version) if version > 1 => Err(newer(version).into()),
        _ => Ok(Layout::None),
    }
}

fn newer(version: i64) -> Error {
    let known = STEPS.len();
    Error::Unsuitable(format!(
        "its tables have version {version}, made by a newer Tidemill; this one knows up to {known}"
    ))
}

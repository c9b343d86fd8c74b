//! Opening a connection: the right mode, patient with other processes.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tidemill_core::Error;

use crate::error::{Failure, about, classify, is_busy};
use crate::migration::migrate;
use crate::options::{Location, Options, Synchronous};

/// How long to wait for other processes before a caller hears of it. A transaction takes milliseconds, so
/// only a process that was stopped in the middle of one, or a disk that hangs, makes anyone wait so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many pauses of half [`LONGEST_PAUSE`] on average that is.
const TRIES: i32 = 12_000;

/// The longest pause between two attempts to get the lock: short, because SQLite has no queue for it and
/// whoever looks more often gets it sooner.
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// More than there are statements, the users' included, so that each is prepared once.
const STATEMENTS: usize = 256;

/// The writer's page cache, in KiB: the log, a few times over.
const CACHE: i64 = 16_000;

/// Opens the connection that writes, with the schema as it should be.
pub(crate) fn open(options: &Options) -> Result<Connection, Error> {
    match &options.path {
        Location::Memory => open_memory().map_err(Error::from),
        Location::File(path) => {
            let connection = open_file(path)?;
            prepare(connection, options.synchronous).map_err(|failure| about(path, failure.into()))
        }
    }
}

fn open_memory() -> Result<Connection, Failure> {
    let mut connection = Connection::open_in_memory()?;
    set_up(&mut connection)?;
    migrate(&connection)?;
    Ok(connection)
}

fn prepare(mut connection: Connection, synchronous: Synchronous) -> Result<Connection, Failure> {
    set_up(&mut connection)?;
    switch_to_wal(&connection)?;
    synchronize(&connection, synchronous)?;
    connection.pragma_update(None, "cache_size", -CACHE)?;
    migrate(&connection)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let mut connection = open_file(path)?;
    let ready = set_up(&mut connection).and_then(|()| connection.pragma_update(None, "query_only", true));
    ready.map_err(|error| classify(&error))?;
    Ok(connection)
}

/// Runs `work` until it no longer finds the file busy, or patience ends. SQLite does not call its busy handler
/// where waiting could be a deadlock (two processes switching to WAL) or during recovery after a crash.
pub(crate) fn patiently<T>(mut work: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let start = Instant::now();
    loop {
        match work() {
            Err(error) if is_busy(&error) && start.elapsed() < PATIENCE => pause(),
            result => return result,
        }
    }
}

fn open_file(path: &Path) -> Result<Connection, Error> {
    let shown = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Error::Invalid(format!("`{shown}`: there is no directory `{}`", folder.display())));
    }
    if path.is_dir() {
        return Err(Error::Invalid(format!("`{shown}` is a directory")));
    }
    // No mutex: each connection stays on its own thread.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| Error::unavailable(format!("`{shown}`"), error))
}

fn set_up(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_handler(Some(|tries| {
        pause();
        tries < TRIES
    }))?;
    connection.pragma_update(None, "temp_store", "memory")
}

fn switch_to_wal(connection: &Connection) -> Result<(), Failure> {
    let switch = || connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get::<_, String>(0));
    let mode = patiently(switch)?;
    if mode == "wal" {
        return Ok(());
    }
    let why = "it is read-only, or its file system has no shared memory";
    Err(Error::Unsuitable(format!("there can be no write-ahead log (the mode stays `{mode}`): {why}")).into())
}

/// Says when commits count as done from now on.
pub(crate) fn synchronize(connection: &Connection, synchronous: Synchronous) -> rusqlite::Result<()> {
    let level = match synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    connection.pragma_update(None, "synchronous", level)
}

fn pause() {
    sleep(LONGEST_PAUSE.mul_f64(fastrand::f64()));
}

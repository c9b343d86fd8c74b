//! Opening connections: journal mode, settings, and waiting for locks of other processes.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tidemill_core::Error;

use crate::error::{RequestError, classify, is_busy, with_path};
use crate::migrate::migrate;
use crate::options::{Location, SqliteOptions, Synchronous};

/// How long to wait for locks of other processes before a caller gets an error. A transaction takes
/// milliseconds. Only a process that was stopped inside one, or a disk that hangs, causes a longer
/// wait.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// How many pauses of half [`MAX_BUSY_PAUSE`] on average add up to [`BUSY_TIMEOUT`].
const MAX_BUSY_TRIES: i32 = 12_000;

/// The longest pause between two attempts to get the lock. It is short because SQLite has no queue
/// for the lock: the connection that tries more often gets it sooner.
const MAX_BUSY_PAUSE: Duration = Duration::from_millis(5);

/// More than the number of statements, the users' included, so that each is prepared once.
const STATEMENT_CACHE_SIZE: usize = 256;

/// The writer's page cache, in KiB: a few times the size of the write-ahead log.
const PAGE_CACHE_KIB: i64 = 16_000;

/// Opens the connection that writes and migrates the schema.
pub(crate) fn open(options: &SqliteOptions) -> Result<Connection, Error> {
    match &options.path {
        Location::Memory => open_memory().map_err(Error::from),
        Location::File(path) => {
            let connection = open_file(path)?;
            configure_writer(connection, options.synchronous)
                .map_err(|failure| with_path(path, failure.into()))
        }
    }
}

fn open_memory() -> Result<Connection, RequestError> {
    let mut connection = Connection::open_in_memory()?;
    configure(&mut connection)?;
    migrate(&connection)?;
    Ok(connection)
}

fn configure_writer(
    mut connection: Connection,
    synchronous: Synchronous,
) -> Result<Connection, RequestError> {
    configure(&mut connection)?;
    switch_to_wal(&connection)?;
    set_synchronous(&connection, synchronous)?;
    connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)?;
    migrate(&connection)?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let mut connection = open_file(path)?;
    let ready = configure(&mut connection).and_then(|()| connection.pragma_update(None, "query_only", true));
    ready.map_err(|error| classify(&error))?;
    Ok(connection)
}

/// Runs `work` until it no longer finds the file busy, or [`BUSY_TIMEOUT`] has passed. SQLite does
/// not call its busy handler where waiting could deadlock (two processes that switch to WAL) or
/// during crash recovery.
pub(crate) fn retry_while_busy<T>(mut work: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let start = Instant::now();
    loop {
        match work() {
            Err(error) if is_busy(&error) && start.elapsed() < BUSY_TIMEOUT => pause(),
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

fn configure(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    connection.busy_handler(Some(|tries| {
        pause();
        tries < MAX_BUSY_TRIES
    }))?;
    connection.pragma_update(None, "temp_store", "memory")
}

fn switch_to_wal(connection: &Connection) -> Result<(), RequestError> {
    let switch = || connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get::<_, String>(0));
    let mode = retry_while_busy(switch)?;
    if mode == "wal" {
        return Ok(());
    }
    let why = "it is read-only, or its file system has no shared memory";
    Err(Error::Unsuitable(format!("cannot use a write-ahead log (the journal mode stays `{mode}`): {why}"))
        .into())
}

/// Sets when commits count as durable from now on.
pub(crate) fn set_synchronous(connection: &Connection, synchronous: Synchronous) -> rusqlite::Result<()> {
    let level = match synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    connection.pragma_update(None, "synchronous", level)
}

fn pause() {
    sleep(MAX_BUSY_PAUSE.mul_f64(fastrand::f64()));
}

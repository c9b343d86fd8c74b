//! Real servers on free loopback ports, which a test can start, pause, kill and restart.
//!
//! Every call here blocks: it is the set-up of a test and mostly waits for a process. A test that
//! restarts a server while its own tasks run needs a multi-threaded runtime.

mod certificates;
mod cluster;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod redis;
mod resp;
mod sentinel;
mod shared;

pub use certificates::Certificates;
pub use cluster::RedisCluster;
pub use pgbouncer::{Pgbouncer, PgbouncerOptions, PoolMode};
pub use postgres::{Postgres, PostgresOptions};
pub use redis::{Redis, RedisOptions, RedisTls};
pub use sentinel::RedisSentinel;
pub use shared::{shared_cluster, shared_postgres, shared_redis};

use std::fmt;
use std::time::{Duration, Instant};

/// How long a server may take for any operation before the test fails.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The interval between two polls of a starting server.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How many ports are tried: another process may take a port between our check and the server's
/// bind.
const MAX_PORT_TRIES: usize = 5;

/// An operation on a server failed. `Debug` prints the message, for the panic of an `unwrap`.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct ServerError(String);

impl ServerError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    fn missing(program: &str, package: &str) -> Self {
        Self(format!("{program} is not here: install {package}, or run `cargo xtask test`, which does"))
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<std::io::Error> for ServerError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Polls until `found` returns a value, for a limited time.
fn wait_for<T>(
    what: &str,
    mut found: impl FnMut() -> Result<Option<T>, ServerError>,
) -> Result<T, ServerError> {
    let begun = Instant::now();
    loop {
        if let Some(value) = found()? {
            return Ok(value);
        }
        if begun.elapsed() > SERVER_TIMEOUT {
            return Err(ServerError::new(format!("{what} took longer than {SERVER_TIMEOUT:?}")));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Calls `start` with one free port after another.
fn start_on_free_port<T>(mut start: impl FnMut(u16) -> Result<T, ServerError>) -> Result<T, ServerError> {
    let mut failure = ServerError::new("no port was tried");
    for _ in 0..MAX_PORT_TRIES {
        match start(port::free()?) {
            Ok(server) => return Ok(server),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

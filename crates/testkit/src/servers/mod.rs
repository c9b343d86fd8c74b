//! Real servers on free loopback ports, to be started, paused, killed and restarted by a test.
//!
//! Every call here blocks: it is the arrangement of a test, and most of it is waiting for a process. A test that
//! restarts a server while its own tasks go on wants a multi-threaded runtime.

mod certificates;
mod cluster;
mod pgbouncer;
mod port;
mod postgres;
mod redis;
mod resp;
mod sentinel;
mod shared;
mod warden;

pub use certificates::Certificates;
pub use cluster::RedisCluster;
pub use pgbouncer::{Pgbouncer, PgbouncerOptions, PoolMode};
pub use postgres::{Postgres, PostgresOptions};
pub use redis::{Redis, RedisOptions, RedisTls};
pub use sentinel::RedisSentinel;
pub use shared::{shared_cluster, shared_postgres, shared_redis};

use std::fmt;
use std::time::{Duration, Instant};

/// How long a server may take to do anything before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait between two looks at a server that is starting.
const GLANCE: Duration = Duration::from_millis(10);

/// How many ports are tried: another process may take a port between our look and the server's bind.
const ATTEMPTS: usize = 5;

/// A server could not be made to do what a test wants. Reads well in the panic of an `unwrap`.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    fn missing(program: &str, package: &str) -> Self {
        Self(format!("{program} is not here: install {package}, or run `cargo xtask test`, which does"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Looks until `found` is something, for a bounded time.
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
    let begun = Instant::now();
    loop {
        if let Some(value) = found()? {
            return Ok(value);
        }
        if begun.elapsed() > PATIENCE {
            return Err(Error::new(format!("{what} took longer than {PATIENCE:?}")));
        }
        std::thread::sleep(GLANCE);
    }
}

/// Tries `start` with one port after another.
fn on_some_port<T>(mut start: impl FnMut(u16) -> Result<T, Error>) -> Result<T, Error> {
    let mut failure = Error::new("no port was tried");
    for _ in 0..ATTEMPTS {
        match start(port::free()?) {
            Ok(server) => return Ok(server),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

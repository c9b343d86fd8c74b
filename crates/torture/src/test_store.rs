//! The stores under test, each on a server of its own that can be stopped.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;
use tidemill_testkit::servers::{Postgres, Redis, RedisCluster, RedisOptions};

/// The kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// A file that all processes share.
    Sqlite,
    /// One server with an append-only file.
    Redis,
    /// Three masters, eight shards.
    Cluster,
    /// One server.
    Postgres,
}

impl StoreKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Sqlite, Self::Redis, Self::Cluster, Self::Postgres];
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Cluster => "cluster",
            Self::Postgres => "postgres",
        })
    }
}

impl FromStr for StoreKind {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|kind| kind.to_string() == word) {
            Some(kind) => Ok(kind),
            None => bail!("{word:?} is not a store: sqlite, redis, cluster, postgres or all"),
        }
    }
}

/// A store that only one scenario uses.
pub enum TestStore {
    /// A file in a directory of its own.
    Sqlite(TempDir),
    /// A server.
    Redis(Redis),
    /// Three servers.
    Cluster(RedisCluster),
    /// A server and one of its databases.
    Postgres(Postgres, String),
}

/// An outage of the store. Dropping it ends the outage.
pub struct StoreOutage<'a> {
    store: &'a TestStore,
    /// The lock on the file, which blocks all other writers.
    _lock: Option<Connection>,
}

impl TestStore {
    /// Starts the servers of the store.
    pub fn open(kind: StoreKind) -> Result<Self> {
        let options = RedisOptions { appendonly: true, ..RedisOptions::default() };
        Ok(match kind {
            StoreKind::Sqlite => {
                Self::Sqlite(tempfile::Builder::new().prefix("tidemill-torture-").tempdir()?)
            }
            StoreKind::Redis => Self::Redis(Redis::with(options)?),
            StoreKind::Cluster => Self::Cluster(RedisCluster::with(options)?),
            StoreKind::Postgres => {
                let server = Postgres::start()?;
                let database = server.database()?;
                Self::Postgres(server, database)
            }
        })
    }

    /// The URL for `tidemill::connect`.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("jobs.db").display()),
            Self::Redis(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Postgres(_, database) => database.clone(),
        }
    }

    /// An isolated part of the store on the same servers: its URL, and its namespace if it has one.
    pub fn isolated(&self, name: &str) -> Result<(String, Option<String>)> {
        Ok(match self {
            Self::Sqlite(folder) => {
                (format!("sqlite:{}", folder.path().join(format!("{name}.db")).display()), None)
            }
            Self::Redis(_) | Self::Cluster(_) => (self.url(), Some(format!("{name}:"))),
            Self::Postgres(server, _) => (server.database()?, None),
        })
    }

    /// The Redis servers, if it is Redis.
    pub fn redis_servers(&self) -> &[Redis] {
        match self {
            Self::Redis(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Sqlite(_) | Self::Postgres(..) => &[],
        }
    }

    /// Starts an outage: connections stay open and nothing answers. Of a cluster, one server stops.
    pub fn pause(&self) -> Result<StoreOutage<'_>> {
        let mut lock = None;
        match self {
            Self::Sqlite(folder) => {
                let connection = Connection::open(folder.path().join("jobs.db"))?;
                connection.busy_timeout(std::time::Duration::from_secs(10))?;
                connection.execute_batch("BEGIN IMMEDIATE")?;
                lock = Some(connection);
            }
            Self::Redis(server) => server.pause()?,
            Self::Cluster(cluster) => cluster.nodes()[0].pause()?,
            Self::Postgres(server, _) => server.pause()?,
        }
        Ok(StoreOutage { store: self, _lock: lock })
    }

    /// Whether a stopped process holds the write lock of a SQLite file, which blocks all other
    /// writers.
    pub fn is_write_locked(&self) -> Result<bool> {
        let Self::Sqlite(folder) = self else { return Ok(false) };
        let connection = Connection::open(folder.path().join("jobs.db"))?;
        connection.busy_timeout(std::time::Duration::from_secs(1))?;
        match connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
            Ok(()) => Ok(false),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn resume(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => {}
            Self::Redis(server) => server.resume()?,
            Self::Cluster(cluster) => cluster.nodes()[0].resume()?,
            Self::Postgres(server, _) => server.resume()?,
        }
        Ok(())
    }

    /// Kills the store's server and restarts it on the same data; of a cluster, one server. A
    /// SQLite file has no server.
    pub fn restart(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => {}
            Self::Redis(server) => server.restart()?,
            Self::Cluster(cluster) => {
                cluster.nodes()[0].restart()?;
                cluster.wait_until_ok()?;
            }
            Self::Postgres(server, _) => server.restart()?,
        }
        Ok(())
    }
}

impl Drop for StoreOutage<'_> {
    fn drop(&mut self) {
        // If it fails, the scenario makes no progress and fails.
        let _ = self.store.resume();
    }
}

//! The stores to torture, each on a server of its own that can be taken away.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;
use tidemill_testkit::servers::{Postgres, Redis, RedisCluster, RedisOptions};

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file shared by all processes.
    Sqlite,
    /// One server with an append-only file.
    Redis,
    /// Three masters, eight shards.
    Cluster,
    /// One server.
    Postgres,
}

impl Kind {
    /// Every store.
    pub const ALL: [Self; 4] = [Self::Sqlite, Self::Redis, Self::Cluster, Self::Postgres];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Cluster => "cluster",
            Self::Postgres => "postgres",
        })
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|kind| kind.to_string() == word) {
            Some(kind) => Ok(kind),
            None => bail!("{word:?} is no store to torture: sqlite, redis, cluster, postgres or all"),
        }
    }
}

/// A store of a scenario's own.
pub enum Place {
    /// A file in a directory of its own.
    Sqlite(TempDir),
    /// A server.
    Redis(Redis),
    /// Three servers.
    Cluster(RedisCluster),
    /// A server, and one database in it.
    Postgres(Postgres, String),
}

/// What takes a store away. Dropping it gives the store back.
pub struct Absence<'a> {
    place: &'a Place,
    /// The lock on the file that keeps everyone else from writing.
    _lock: Option<Connection>,
}

impl Place {
    /// Starts what is needed.
    pub fn open(kind: Kind) -> Result<Self> {
        let options = RedisOptions { appendonly: true, ..RedisOptions::default() };
        Ok(match kind {
            Kind::Sqlite => Self::Sqlite(tempfile::Builder::new().prefix("tidemill-torture-").tempdir()?),
            Kind::Redis => Self::Redis(Redis::with(options)?),
            Kind::Cluster => Self::Cluster(RedisCluster::with(options)?),
            Kind::Postgres => {
                let server = Postgres::start()?;
                let database = server.database()?;
                Self::Postgres(server, database)
            }
        })
    }

    /// Where it is, as `tidemill::connect` wants it.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("jobs.db").display()),
            Self::Redis(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Postgres(_, database) => database.clone(),
        }
    }

    /// A part of it that shares its servers and nothing else: where it is, and the namespace it is in, if it is one.
    pub fn corner(&self, name: &str) -> Result<(String, Option<String>)> {
        Ok(match self {
            Self::Sqlite(folder) => {
                (format!("sqlite:{}", folder.path().join(format!("{name}.db")).display()), None)
            }
            Self::Redis(_) | Self::Cluster(_) => (self.url(), Some(format!("{name}:"))),
            Self::Postgres(server, _) => (server.database()?, None),
        })
    }

    /// The Redis servers, if that is what it is.
    pub fn redis_servers(&self) -> &[Redis] {
        match self {
            Self::Redis(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Sqlite(_) | Self::Postgres(..) => &[],
        }
    }

    /// Takes the store away: connections stay open and nothing answers. Of a cluster, one server.
    pub fn pause(&self) -> Result<Absence<'_>> {
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
        Ok(Absence { place: self, _lock: lock })
    }

    /// Whether a process that stands still holds up all others. A file has one writer at a time, and it may be that one.
    pub fn is_held_up(&self) -> Result<bool> {
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

    /// Kills the store's server and starts it again on the same data; of a cluster, one of them. A file has
    /// no server.
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

impl Drop for Absence<'_> {
    fn drop(&mut self) {
        // If it fails, the scenario will not make progress and say so.
        let _ = self.place.resume();
    }
}

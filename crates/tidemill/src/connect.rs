//! From a URL to a store: the only place that knows how many there are.

use std::fmt;
use std::sync::Arc;

use tidemill_core::floor::Floor;
use tidemill_core::{Error, Limits, Mill, Namespace, QueueName, Store};

/// Connects to the store at `url`: `sqlite:app.db`, `sqlite::memory:`, `redis://…`, `rediss://…`,
/// `redis+cluster://…` or `postgres://…`.
pub async fn connect(url: &str) -> Result<Mill, Error> {
    connector(url)?.connect().await
}

/// Prepares a connection with other than the usual settings. Nothing is opened yet.
pub fn connector(url: &str) -> Result<Connector, Error> {
    Ok(Connector { place: Place::parse(url)?, limits: Limits::default(), source: None })
}

/// A connection that is about to be made.
#[derive(Debug)]
#[must_use = "nothing is opened before `.connect().await`"]
pub struct Connector {
    place: Place,
    limits: Limits,
    source: Option<String>,
}

/// Where the state lives.
enum Place {
    #[cfg(feature = "sqlite")]
    Sqlite(tidemill_sqlite::Options),
    #[cfg(feature = "redis")]
    Redis(Box<tidemill_redis::Options>),
    #[cfg(feature = "postgres")]
    Postgres(tidemill_postgres::Options),
}

impl Place {
    fn parse(url: &str) -> Result<Self, Error> {
        let scheme = url.split(':').next().unwrap_or_default();
        match scheme {
            #[cfg(feature = "sqlite")]
            "sqlite" => tidemill_sqlite::Options::parse(url).map(Self::Sqlite),
            #[cfg(feature = "redis")]
            "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "valkey" | "valkeys" => {
                tidemill_redis::Options::parse(url).map(|options| Self::Redis(Box::new(options)))
            }
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => tidemill_postgres::Options::parse(url).map(Self::Postgres),
            // The URL may hold a password, so only its scheme is shown.
            _ => Err(Error::Invalid(format!(
                "{scheme:?} is no store: use sqlite:FILE, sqlite::memory:, redis://…, rediss://…, \
                 redis+cluster://… or postgres://…"
            ))),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => options.fmt(f),
            #[cfg(feature = "redis")]
            Self::Redis(options) => options.fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => f.write_str("postgres"),
        }
    }
}

impl Connector {
    /// Puts this prefix before every key. Only Redis has keys to put it before.
    pub fn namespace(mut self, namespace: Namespace) -> Result<Self, Error> {
        match self.place {
            #[cfg(feature = "redis")]
            Place::Redis(options) => self.place = Place::Redis(Box::new(options.namespace(namespace))),
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            _ => return Err(Error::Invalid("only a Redis store has a namespace".into())),
        }
        Ok(self)
    }

    /// Names the consumer group of one queue, or of all that have no other. Only Redis has such groups.
    pub fn group(mut self, queue: Option<QueueName>, group: &str) -> Result<Self, Error> {
        match self.place {
            #[cfg(feature = "redis")]
            Place::Redis(options) => {
                self.place = Place::Redis(Box::new(match queue {
                    Some(queue) => options.group(queue, group),
                    None => options.default_group(group),
                }));
            }
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            _ => return Err(Error::Invalid("only a Redis store has consumer groups".into())),
        }
        Ok(self)
    }

    /// Sets the limits on what may be enqueued.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the name under which this program's jobs are made: the envelope's `meta.source`.
    pub fn source(mut self, source: &str) -> Self {
        self.source = Some(source.to_owned());
        self
    }

    /// Opens the store.
    pub async fn connect(self) -> Result<Mill, Error> {
        let store: Arc<dyn Store> = match self.place {
            #[cfg(feature = "sqlite")]
            Place::Sqlite(options) => Arc::new(tidemill_sqlite::SqliteStore::open(options).await?),
            #[cfg(feature = "redis")]
            Place::Redis(options) => Arc::new(tidemill_redis::RedisStore::connect(*options).await?),
            #[cfg(feature = "postgres")]
            Place::Postgres(options) => Arc::new(tidemill_postgres::PostgresStore::connect(options).await?),
        };
        let mill = Mill::new(store).limits(self.limits);
        Ok(match self.source {
            Some(source) => mill.source(&source),
            None => mill,
        })
    }

    /// The raw loops of this store, to measure against.
    pub async fn floors(self) -> Result<Vec<Box<dyn Floor>>, Error> {
        match self.place {
            #[cfg(feature = "sqlite")]
            Place::Sqlite(options) => tidemill_sqlite::floors(options).await,
            #[cfg(feature = "redis")]
            Place::Redis(options) => tidemill_redis::floors(*options).await,
            #[cfg(feature = "postgres")]
            Place::Postgres(options) => tidemill_postgres::floors(options).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_store_is_refused_without_showing_the_url() {
        let error = connector("mysql://root:hunter2@db").unwrap_err().to_string();
        assert!(error.contains("\"mysql\" is no store") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_namespace_is_for_redis_only() {
        let namespace = || Namespace::new("msaas:dev:").unwrap();
        assert!(connector("sqlite::memory:").unwrap().namespace(namespace()).is_err());
        assert!(connector("redis://localhost").unwrap().namespace(namespace()).is_ok());
    }
}

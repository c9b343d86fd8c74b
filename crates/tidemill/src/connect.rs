//! From a URL to a store: the only place that knows how many there are.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::baseline::Baseline;
use tidemill_core::wake::PollInterval;
use tidemill_core::wake::Transport;
use tidemill_core::{Client, Error, Limits, Namespace, QueueName, Store};

use crate::wake::{IntoWakeUps, WakeUps};

/// Connects to the store at `url`: `sqlite:app.db`, `sqlite::memory:`, `redis://…`, `rediss://…`,
/// `redis+cluster://…`, `redis+sentinel://…`, `redis+unix://…` or `postgres://…`.
pub async fn connect(url: &str) -> Result<Client, Error> {
    connector(url)?.connect().await
}

/// Prepares a connection with other than the usual settings. Nothing is opened yet.
pub fn connector(url: &str) -> Result<Connector, Error> {
    let (place, limits) = (Place::parse(url)?, Limits::default());
    Ok(Connector { place, limits, source: None, namespace: None, wake: None })
}

/// A connection that is about to be made.
#[derive(Debug)]
#[must_use = "nothing is opened before `.connect().await`"]
pub struct Connector {
    place: Place,
    limits: Limits,
    source: Option<String>,
    namespace: Option<Namespace>,
    wake: Option<WakeUps>,
}

/// How a store that was cut off while it was opened is tried again.
const OPEN_AGAIN: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// A store that took longer than this to fail is not tried again: nobody waits that long for a clear error.
const OPEN_WITHIN: Duration = Duration::from_secs(1);

/// Where the state lives.
#[derive(Clone)]
enum Place {
    #[cfg(feature = "sqlite")]
    Sqlite(tidemill_sqlite::SqliteOptions),
    #[cfg(feature = "redis")]
    Redis(Box<tidemill_redis::RedisOptions>),
    #[cfg(feature = "postgres")]
    Postgres(tidemill_postgres::PostgresOptions),
}

impl Place {
    fn parse(url: &str) -> Result<Self, Error> {
        let scheme = url.split(':').next().unwrap_or_default();
        #[cfg(feature = "redis")]
        if tidemill_redis::is_redis_url(url) {
            return tidemill_redis::RedisOptions::parse(url).map(|options| Self::Redis(Box::new(options)));
        }
        match scheme {
            #[cfg(feature = "sqlite")]
            "sqlite" => tidemill_sqlite::SqliteOptions::parse(url).map(Self::Sqlite),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => tidemill_postgres::PostgresOptions::parse(url).map(Self::Postgres),
            // The URL may hold a password, so only its scheme is shown.
            _ => Err(Error::Invalid(format!(
                "{scheme:?} is no store: use sqlite:FILE, sqlite::memory:, redis://…, rediss://…, \
                 redis+cluster://…, redis+sentinel://…, redis+unix://… or postgres://…"
            ))),
        }
    }
}

impl Place {
    /// Whether idle workers of this store can be woken like this.
    fn check(&self, by: &WakeUps) -> Result<(), Error> {
        match (self, &by.0) {
            #[cfg(feature = "redis")]
            (Self::Redis(_), _) => Err(Error::Invalid(
                "a Redis store wakes its workers by itself; leave out how else they should be woken".into(),
            )),
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(_), crate::wake::Way::Listen) => Err(Error::Invalid(
                "SQLite has no LISTEN: leave it out, because a SQLite store sees by itself what others write, \
                 or wake by redis://…"
                    .into(),
            )),
            #[allow(unreachable_patterns, reason = "there may be no such store in this build")]
            _ => Ok(()),
        }
    }

    /// Opens the store. One that is cut off while it is opened is tried again; one that does not answer for long is not.
    async fn open(self, courier: Option<Arc<dyn Transport>>) -> Result<Arc<dyn Store>, Error> {
        let began = Instant::now();
        for pause in OPEN_AGAIN {
            match self.clone().try_open(courier.clone()).await {
                Err(error) if error.is_unavailable() && began.elapsed() < OPEN_WITHIN => {
                    tokio::time::sleep(pause).await;
                }
                opened => return opened,
            }
        }
        self.try_open(courier).await
    }

    async fn try_open(self, courier: Option<Arc<dyn Transport>>) -> Result<Arc<dyn Store>, Error> {
        // A build with Redis alone has no use for it.
        let _ = &courier;
        Ok(match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => {
                let options = tidemill_sqlite::SqliteOptions { transport: courier, ..options };
                Arc::new(tidemill_sqlite::SqliteStore::open(options).await?)
            }
            #[cfg(feature = "redis")]
            Self::Redis(options) => Arc::new(tidemill_redis::RedisStore::connect(*options).await?),
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => {
                let options = tidemill_postgres::PostgresOptions { transport: courier, ..options };
                Arc::new(tidemill_postgres::PostgresStore::connect(options).await?)
            }
        })
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
    /// Puts this prefix before every key and channel. Only Redis has such, as a store or for wake-ups.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Chooses how idle workers learn of work from other processes: by a Redis server (`"redis://…"`), by
    /// [`Listen`](crate::Listen) on PostgreSQL, or not at all ([`NoTransport`](crate::NoTransport)), and then by
    /// looking now and then.
    ///
    /// ```no_run
    /// # use tidemill::{Error, Listen};
    /// # async fn connect() -> Result<(), Error> {
    /// let client = tidemill::connector("postgres://localhost/app")?.wake("redis://localhost")?.connect().await?;
    /// let client = tidemill::connector("postgres://localhost/app")?.wake(Listen)?.connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wake(mut self, by: impl IntoWakeUps) -> Result<Self, Error> {
        let by = by.into_wake_ups()?;
        self.place.check(&by)?;
        self.wake = Some(by);
        Ok(self)
    }

    /// Sets how often an idle queue is looked at although nothing has rung. Only PostgreSQL has to be.
    pub fn pace(mut self, pace: PollInterval) -> Result<Self, Error> {
        match &mut self.place {
            #[cfg(feature = "postgres")]
            Place::Postgres(options) => {
                options.poll_interval = pace;
                Ok(self)
            }
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            _ => {
                let _ = pace;
                Err(Error::Invalid("only a PostgreSQL store is looked at regularly".into()))
            }
        }
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
    pub async fn connect(mut self) -> Result<Client, Error> {
        self.settle_namespace()?;
        let Self { place, limits, source, namespace, wake } = self;
        let courier = match wake {
            Some(wake) => wake.courier(namespace).await?,
            None => None,
        };
        let client = Client::new(place.open(courier).await?).limits(limits);
        Ok(match source {
            Some(source) => client.source(&source),
            None => client,
        })
    }

    /// Gives the namespace to what has one.
    fn settle_namespace(&mut self) -> Result<(), Error> {
        match (&mut self.place, self.namespace.take()) {
            (_, None) => {}
            #[cfg(feature = "redis")]
            (Place::Redis(options), Some(namespace)) => **options = options.clone().namespace(namespace),
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            (_, Some(namespace)) if self.wake.as_ref().is_some_and(WakeUps::has_namespace) => {
                self.namespace = Some(namespace);
            }
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            (_, Some(_)) => {
                let why = "a namespace is a prefix of Redis keys and channels: this store has none, and is not \
                           woken by Redis";
                return Err(Error::Invalid(why.into()));
            }
        }
        Ok(())
    }

    /// The raw loops of this store, to measure against.
    pub async fn floors(mut self) -> Result<Vec<Box<dyn Baseline>>, Error> {
        self.settle_namespace()?;
        match self.place {
            #[cfg(feature = "sqlite")]
            Place::Sqlite(options) => tidemill_sqlite::baselines(options).await,
            #[cfg(feature = "redis")]
            Place::Redis(options) => tidemill_redis::baselines(*options).await,
            #[cfg(feature = "postgres")]
            Place::Postgres(options) => tidemill_postgres::baselines(options).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Listen;

    #[test]
    fn an_unknown_store_is_refused_without_showing_the_url() {
        let error = connector("mysql://root:hunter2@db").unwrap_err().to_string();
        assert!(error.contains("\"mysql\" is no store") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_namespace_is_for_what_has_keys_or_channels() {
        let check = |connector: Connector| {
            let namespace = Namespace::new("msaas:dev:").unwrap();
            connector.namespace(namespace).settle_namespace()
        };
        let error = check(connector("sqlite::memory:").unwrap()).unwrap_err().to_string();
        assert!(error.contains("a prefix of Redis keys"), "{error}");
        assert!(check(connector("postgres://localhost").unwrap().wake(Listen).unwrap()).is_err());
        assert!(check(connector("postgres://localhost").unwrap().wake("redis://localhost").unwrap()).is_ok());
        assert!(check(connector("redis://localhost").unwrap()).is_ok());
    }

    #[test]
    fn what_cannot_wake_a_store_is_refused_with_a_reason() {
        let refused = |store: &str, by: &str| connector(store).unwrap().wake(by).unwrap_err().to_string();
        assert!(refused("redis://localhost", "redis://localhost").contains("by itself"));
        assert!(refused("sqlite:app.db", "listen").contains("no LISTEN"));
        let unknown = refused("postgres://localhost", "nats://me:hunter2@localhost");
        assert!(unknown.starts_with("\"nats\" wakes nobody") && !unknown.contains("hunter2"), "{unknown}");
        for by in [
            "none",
            "redis://localhost",
            "redis+cluster://localhost",
            "redis+sentinel://a,b/main",
            "unix:///s",
        ] {
            assert!(connector("sqlite:app.db").unwrap().wake(by).is_ok(), "{by}");
            assert!(connector("postgres://localhost").unwrap().wake(by).is_ok(), "{by}");
        }
    }

    #[test]
    fn the_way_of_waking_never_shows_a_password() {
        let connector =
            connector("postgres://localhost").unwrap().wake("redis://:hunter2@localhost").unwrap();
        assert!(!format!("{connector:?}").contains("hunter2"));
    }
}

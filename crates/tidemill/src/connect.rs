//! The client builder: opens the store that a URL names. The only module that knows all stores.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::baseline::Baseline;
use tidemill_core::wake::PollInterval;
use tidemill_core::wake::Transport;
use tidemill_core::{Client, Error, Limits, Namespace, QueueName, Store};

use crate::wake::{IntoWakeTransport, WakeTransport};

/// Connects to the store at `url`: `sqlite:app.db`, `sqlite::memory:`, `redis://…`, `rediss://…`,
/// `redis+cluster://…`, `redis+sentinel://…`, `redis+unix://…` or `postgres://…`.
pub async fn connect(url: &str) -> Result<Client, Error> {
    ClientBuilder::new(url)?.connect().await
}

/// Settings of a connection. Opens nothing before [`connect`](Self::connect).
#[derive(Debug)]
#[must_use = "nothing is opened before `.connect().await`"]
pub struct ClientBuilder {
    store: StoreOptions,
    limits: Limits,
    source: Option<String>,
    namespace: Option<Namespace>,
    wake: Option<WakeTransport>,
}

/// Delays before the retries of an open that failed because the store was unavailable.
const OPEN_RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// An open that took longer than this to fail is not retried, so that the error arrives soon.
const MAX_OPEN_RETRY_TIME: Duration = Duration::from_secs(1);

/// The parsed options of one store.
#[derive(Clone)]
enum StoreOptions {
    #[cfg(feature = "sqlite")]
    Sqlite(tidemill_sqlite::SqliteOptions),
    #[cfg(feature = "redis")]
    Redis(Box<tidemill_redis::RedisOptions>),
    #[cfg(feature = "postgres")]
    Postgres(tidemill_postgres::PostgresOptions),
}

impl StoreOptions {
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
            // The URL may contain a password, so the error shows only its scheme.
            _ => Err(Error::Invalid(format!(
                "{scheme:?} is not a store: use sqlite:FILE, sqlite::memory:, redis://…, rediss://…, \
                 redis+cluster://…, redis+sentinel://…, redis+unix://… or postgres://…"
            ))),
        }
    }
}

impl StoreOptions {
    /// Rejects a wake-up transport that this store cannot use.
    fn check(&self, wake: &WakeTransport) -> Result<(), Error> {
        match (self, &wake.0) {
            #[cfg(feature = "redis")]
            (Self::Redis(_), _) => Err(Error::Invalid(
                "a Redis store wakes its workers by itself: remove the wake-up transport".into(),
            )),
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(_), crate::wake::WakeMethod::ListenNotify) => Err(Error::Invalid(
                "SQLite has no LISTEN: remove it, because a SQLite store notices writes of other processes, \
                 or use redis://…"
                    .into(),
            )),
            #[allow(unreachable_patterns, reason = "there may be no such store in this build")]
            _ => Ok(()),
        }
    }

    /// Opens the store. Retries if the store is unavailable, unless the first attempt took long.
    async fn open(self, transport: Option<Arc<dyn Transport>>) -> Result<Arc<dyn Store>, Error> {
        let started = Instant::now();
        for pause in OPEN_RETRY_DELAYS {
            match self.clone().try_open(transport.clone()).await {
                Err(error) if error.is_unavailable() && started.elapsed() < MAX_OPEN_RETRY_TIME => {
                    tokio::time::sleep(pause).await;
                }
                opened => return opened,
            }
        }
        self.try_open(transport).await
    }

    async fn try_open(self, transport: Option<Arc<dyn Transport>>) -> Result<Arc<dyn Store>, Error> {
        // Unused in a build with Redis alone.
        let _ = &transport;
        Ok(match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => {
                let options = tidemill_sqlite::SqliteOptions { transport, ..options };
                Arc::new(tidemill_sqlite::SqliteStore::open(options).await?)
            }
            #[cfg(feature = "redis")]
            Self::Redis(options) => Arc::new(tidemill_redis::RedisStore::connect(*options).await?),
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => {
                let options = tidemill_postgres::PostgresOptions { transport, ..options };
                Arc::new(tidemill_postgres::PostgresStore::connect(options).await?)
            }
        })
    }
}

impl fmt::Debug for StoreOptions {
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

impl ClientBuilder {
    /// Parses the URL of a store. Opens nothing yet.
    pub fn new(url: &str) -> Result<Self, Error> {
        let (store, limits) = (StoreOptions::parse(url)?, Limits::default());
        Ok(Self { store, limits, source: None, namespace: None, wake: None })
    }

    /// Sets the prefix of every key and channel. Only Redis uses it, as a store or for wake-ups.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Sets the transport of wake-ups from other processes: a Redis server (`"redis://…"`),
    /// [`ListenNotify`](crate::ListenNotify) on PostgreSQL, or none
    /// ([`NoTransport`](crate::NoTransport)). Without a transport, idle workers poll.
    ///
    /// ```no_run
    /// # use tidemill::{ClientBuilder, Error, ListenNotify};
    /// # async fn connect() -> Result<(), Error> {
    /// let client = ClientBuilder::new("postgres://localhost/app")?.wake("redis://localhost")?.connect().await?;
    /// let client = ClientBuilder::new("postgres://localhost/app")?.wake(ListenNotify)?.connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wake(mut self, transport: impl IntoWakeTransport) -> Result<Self, Error> {
        let transport = transport.into_wake_transport()?;
        self.store.check(&transport)?;
        self.wake = Some(transport);
        Ok(self)
    }

    /// Sets how often an idle queue is polled without a wake-up. Only a PostgreSQL store is polled.
    pub fn poll_interval(mut self, interval: PollInterval) -> Result<Self, Error> {
        match &mut self.store {
            #[cfg(feature = "postgres")]
            StoreOptions::Postgres(options) => {
                options.poll_interval = interval;
                Ok(self)
            }
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            _ => {
                let _ = interval;
                Err(Error::Invalid("only a PostgreSQL store has a poll interval".into()))
            }
        }
    }

    /// Sets the consumer group of one queue, or of all queues without a group of their own. Only
    /// Redis has consumer groups.
    pub fn group(mut self, queue: Option<QueueName>, group: &str) -> Result<Self, Error> {
        match self.store {
            #[cfg(feature = "redis")]
            StoreOptions::Redis(options) => {
                self.store = StoreOptions::Redis(Box::new(match queue {
                    Some(queue) => options.group(queue, group),
                    None => options.default_group(group),
                }));
            }
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            _ => return Err(Error::Invalid("only a Redis store has consumer groups".into())),
        }
        Ok(self)
    }

    /// Sets the limits on enqueued jobs.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the source of this program's jobs: the envelope's `meta.source`.
    pub fn source(mut self, source: &str) -> Self {
        self.source = Some(source.to_owned());
        self
    }

    /// Opens the store.
    pub async fn connect(mut self) -> Result<Client, Error> {
        self.apply_namespace()?;
        let Self { store, limits, source, namespace, wake } = self;
        let transport = match wake {
            Some(wake) => wake.into_transport(namespace).await?,
            None => None,
        };
        let client = Client::new(store.open(transport).await?).limits(limits);
        Ok(match source {
            Some(source) => client.source(&source),
            None => client,
        })
    }

    /// Passes the namespace to the store or to the wake-up transport.
    fn apply_namespace(&mut self) -> Result<(), Error> {
        match (&mut self.store, self.namespace.take()) {
            (_, None) => {}
            #[cfg(feature = "redis")]
            (StoreOptions::Redis(options), Some(namespace)) => {
                **options = options.clone().namespace(namespace)
            }
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            (_, Some(namespace)) if self.wake.as_ref().is_some_and(WakeTransport::has_namespace) => {
                self.namespace = Some(namespace);
            }
            #[allow(unreachable_patterns, reason = "there may be no other store in this build")]
            (_, Some(_)) => {
                let message = "a namespace is a prefix of Redis keys and channels: this store has none, and its \
                           wake-ups do not use Redis";
                return Err(Error::Invalid(message.into()));
            }
        }
        Ok(())
    }

    /// The baselines of this store for benchmarks: loops over the bare driver.
    pub async fn baselines(mut self) -> Result<Vec<Box<dyn Baseline>>, Error> {
        self.apply_namespace()?;
        match self.store {
            #[cfg(feature = "sqlite")]
            StoreOptions::Sqlite(options) => tidemill_sqlite::baselines(options).await,
            #[cfg(feature = "redis")]
            StoreOptions::Redis(options) => tidemill_redis::baselines(*options).await,
            #[cfg(feature = "postgres")]
            StoreOptions::Postgres(options) => tidemill_postgres::baselines(options).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::ListenNotify;

    #[test]
    fn an_unknown_store_is_refused_without_showing_the_url() {
        let error = ClientBuilder::new("mysql://root:hunter2@db").unwrap_err().to_string();
        assert!(error.contains("\"mysql\" is not a store") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_namespace_is_for_what_has_keys_or_channels() {
        let check = |builder: ClientBuilder| {
            let namespace = Namespace::new("msaas:dev:").unwrap();
            builder.namespace(namespace).apply_namespace()
        };
        let error = check(ClientBuilder::new("sqlite::memory:").unwrap()).unwrap_err().to_string();
        assert!(error.contains("a prefix of Redis keys"), "{error}");
        assert!(
            check(ClientBuilder::new("postgres://localhost").unwrap().wake(ListenNotify).unwrap()).is_err()
        );
        assert!(
            check(ClientBuilder::new("postgres://localhost").unwrap().wake("redis://localhost").unwrap())
                .is_ok()
        );
        assert!(check(ClientBuilder::new("redis://localhost").unwrap()).is_ok());
    }

    #[test]
    fn what_cannot_wake_a_store_is_refused_with_a_reason() {
        let refused =
            |store: &str, by: &str| ClientBuilder::new(store).unwrap().wake(by).unwrap_err().to_string();
        assert!(refused("redis://localhost", "redis://localhost").contains("wakes its workers by itself"));
        assert!(refused("sqlite:app.db", "listen").contains("no LISTEN"));
        let unknown = refused("postgres://localhost", "nats://me:hunter2@localhost");
        assert!(
            unknown.starts_with("\"nats\" is not a wake-up transport") && !unknown.contains("hunter2"),
            "{unknown}"
        );
        for by in [
            "none",
            "redis://localhost",
            "redis+cluster://localhost",
            "redis+sentinel://a,b/main",
            "unix:///s",
        ] {
            assert!(ClientBuilder::new("sqlite:app.db").unwrap().wake(by).is_ok(), "{by}");
            assert!(ClientBuilder::new("postgres://localhost").unwrap().wake(by).is_ok(), "{by}");
        }
    }

    #[test]
    fn the_wake_transport_never_shows_a_password() {
        let builder =
            ClientBuilder::new("postgres://localhost").unwrap().wake("redis://:hunter2@localhost").unwrap();
        assert!(!format!("{builder:?}").contains("hunter2"));
    }
}

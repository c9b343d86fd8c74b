//! The options of each store, and how a store is opened from them. A build without a store has
//! none of these and accepts no URL.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidemill_core::baseline::Baseline;
use tidemill_core::wake::{PollInterval, Transport};
use tidemill_core::{Error, Namespace, QueueName, Store};

use crate::wake::WakeTransport;

/// The result of a call to a store's driver.
pub(crate) type StoreFuture<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The parsed options of one store. The default methods reject a setting that the store does not
/// have.
pub(crate) trait OpenStore: fmt::Debug + Send + Sync {
    /// Opens the store. May be called again after a failure.
    fn open(&self, transport: Option<Arc<dyn Transport>>) -> StoreFuture<'_, Arc<dyn Store>>;

    /// The baselines of this store for benchmarks.
    fn baselines(&self) -> StoreFuture<'_, Vec<Box<dyn Baseline>>>;

    /// Rejects a wake-up transport that this store cannot use.
    fn check_wake(&self, _wake: &WakeTransport) -> Result<(), Error> {
        Ok(())
    }

    /// Whether the keys of this store have a prefix.
    fn has_namespace(&self) -> bool {
        false
    }

    /// Sets the prefix of all keys. Returns it if the store's keys have none: then it is for the
    /// wake-up transport.
    fn set_namespace(&mut self, namespace: Namespace) -> Option<Namespace> {
        Some(namespace)
    }

    /// Sets the consumer group of one queue, or of all queues without a group of their own.
    fn set_group(&mut self, _queue: Option<QueueName>, _group: &str) -> Result<(), Error> {
        Err(Error::Invalid("only a Redis store has consumer groups".into()))
    }

    /// Sets how often an idle queue is polled.
    fn set_poll_interval(&mut self, _interval: PollInterval) -> Result<(), Error> {
        Err(Error::Invalid("only a PostgreSQL store has a poll interval".into()))
    }
}

/// Parses the URL of a store. Opens nothing yet.
pub(crate) fn parse(url: &str) -> Result<Box<dyn OpenStore>, Error> {
    #[cfg(feature = "redis")]
    if tidemill_redis::is_redis_url(url) {
        return Ok(Box::new(tidemill_redis::RedisOptions::parse(url)?));
    }
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Box::new(tidemill_sqlite::SqliteOptions::parse(url)?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Box::new(tidemill_postgres::PostgresOptions::parse(url)?)),
        // The URL may contain a password, so the error shows only its scheme.
        _ => Err(Error::Invalid(format!(
            "{scheme:?} is not a store: use sqlite:FILE, sqlite::memory:, redis://…, rediss://…, \
             redis+cluster://…, redis+sentinel://…, redis+unix://… or postgres://…"
        ))),
    }
}

//! The client builder: settings of a connection, and the retries of its opening.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::baseline::Baseline;
use tidemill_core::wake::PollInterval;
use tidemill_core::wake::Transport;
use tidemill_core::{Client, Error, Limits, Namespace, QueueName, Store};

use crate::open::{self, OpenStore};
use crate::wake::{IntoWakeTransport, WakeTransport};

/// Connects to the store at `url`: `sqlite:app.db`, `sqlite::memory:`, `redis://…`, `rediss://…`,
/// `redis+cluster://…`, `redis+sentinel://…`, `redis+unix://…` or `postgres://…`.
///
/// # Errors
/// [`Error::Invalid`] if the URL is not valid; otherwise the store's error, such as
/// [`Error::Unavailable`] or [`Error::Denied`].
///
/// # Cancel safety
/// A dropped call may have created the store's tables.
pub async fn connect(url: &str) -> Result<Client, Error> {
    ClientBuilder::new(url).connect().await
}

/// Settings of a connection. Opens nothing before [`connect`](Self::connect), which also returns
/// the first invalid setting.
///
/// ```
/// # use tidemill::{ClientBuilder, Error, Limits};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Error> {
/// let limits = Limits { payload: 64 << 10 };
/// let client = ClientBuilder::new("sqlite::memory:").limits(limits).source("shop").connect().await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is opened before `.connect().await`"]
pub struct ClientBuilder {
    /// The store, or the first invalid setting.
    store: Result<Box<dyn OpenStore>, Error>,
    limits: Limits,
    source: Option<String>,
    namespace: Option<Namespace>,
    wake: Option<WakeTransport>,
}

/// Delays before the retries of an open that failed because the store was unavailable.
const OPEN_RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// An open that took longer than this to fail is not retried, so that the error arrives soon.
const MAX_OPEN_RETRY_TIME: Duration = Duration::from_secs(1);

impl ClientBuilder {
    /// Settings for the store at `url`: see [`connect`]. Opens nothing yet.
    pub fn new(url: &str) -> Self {
        let (store, limits) = (open::parse(url), Limits::default());
        Self { store, limits, source: None, namespace: None, wake: None }
    }

    /// Changes the store's options, unless an earlier setting was not valid.
    fn set(mut self, set: impl FnOnce(&mut dyn OpenStore) -> Result<(), Error>) -> Self {
        if let Ok(store) = &mut self.store
            && let Err(error) = set(&mut **store)
        {
            self.store = Err(error);
        }
        self
    }

    /// Sets the prefix of every key and channel. Only Redis uses it, as a store or for wake-ups.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Sets the transport of wake-ups from other processes: a Redis server (`"redis://…"`),
    /// [`ListenNotify`](crate::wake::ListenNotify) on PostgreSQL, or none
    /// ([`NoTransport`](crate::wake::NoTransport)). Without a transport, idle workers poll.
    ///
    /// ```no_run
    /// # use tidemill::{ClientBuilder, Error, wake::ListenNotify};
    /// # async fn connect() -> Result<(), Error> {
    /// let client = ClientBuilder::new("postgres://localhost/app").wake("redis://localhost").connect().await?;
    /// let client = ClientBuilder::new("postgres://localhost/app").wake(ListenNotify).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wake(self, transport: impl IntoWakeTransport) -> Self {
        let mut wake = None;
        let builder = self.set(|store| {
            let transport = transport.into_wake_transport()?;
            store.check_wake(&transport)?;
            wake = Some(transport);
            Ok(())
        });
        Self { wake, ..builder }
    }

    /// Sets how often an idle queue is polled without a wake-up. Only a PostgreSQL store is polled.
    pub fn poll_interval(self, interval: PollInterval) -> Self {
        self.set(|store| store.set_poll_interval(interval))
    }

    /// Sets the consumer group of one queue, or of all queues without a group of their own. Only
    /// Redis has consumer groups.
    pub fn group(self, queue: Option<QueueName>, group: &str) -> Self {
        self.set(|store| store.set_group(queue, group))
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

    /// Checks the settings without opening the store.
    ///
    /// # Errors
    /// The first setting that is not valid.
    pub fn check(&self) -> Result<(), Error> {
        let store = self.store.as_ref().map_err(Error::duplicate)?;
        let has_prefix =
            store.has_namespace() || self.wake.as_ref().is_some_and(WakeTransport::has_namespace);
        if self.namespace.is_some() && !has_prefix {
            let message = "a namespace is a prefix of Redis keys and channels: this store has none, and its \
                           wake-ups do not use Redis";
            return Err(Error::Invalid(message.into()));
        }
        Ok(())
    }

    /// Opens the store.
    ///
    /// # Errors
    /// The first setting that is not valid; otherwise the store's error, such as
    /// [`Error::Unavailable`] or [`Error::Denied`].
    ///
    /// # Cancel safety
    /// A dropped call may have created the store's tables.
    pub async fn connect(self) -> Result<Client, Error> {
        self.check()?;
        let Self { store, limits, source, namespace, wake } = self;
        let mut store = store?;
        let namespace = namespace.and_then(|namespace| store.set_namespace(namespace));
        let transport = match wake {
            Some(wake) => wake.into_transport(namespace).await?,
            None => None,
        };
        let client = Client::new(open_with_retries(&*store, transport).await?).limits(limits);
        Ok(match source {
            Some(source) => client.source(&source),
            None => client,
        })
    }

    /// The baselines of this store for benchmarks: loops over the bare driver.
    #[doc(hidden)]
    pub async fn baselines(self) -> Result<Vec<Box<dyn Baseline>>, Error> {
        self.check()?;
        let mut store = self.store?;
        if let Some(namespace) = self.namespace {
            store.set_namespace(namespace);
        }
        store.baselines().await
    }
}

/// Opens the store. Retries if the store is unavailable, unless the first attempt took long.
async fn open_with_retries(
    store: &dyn OpenStore,
    transport: Option<Arc<dyn Transport>>,
) -> Result<Arc<dyn Store>, Error> {
    let started = Instant::now();
    for delay in OPEN_RETRY_DELAYS {
        match store.open(transport.clone()).await {
            Err(error) if error.is_unavailable() && started.elapsed() < MAX_OPEN_RETRY_TIME => {
                tokio::time::sleep(delay).await;
            }
            opened => return opened,
        }
    }
    store.open(transport).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::ListenNotify;

    #[test]
    fn an_unknown_store_is_refused_without_showing_the_url() {
        let error = ClientBuilder::new("mysql://root:hunter2@db").check().unwrap_err().to_string();
        assert!(error.contains("\"mysql\" is not a store") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_namespace_is_for_what_has_keys_or_channels() {
        let check = |builder: ClientBuilder| {
            let namespace = Namespace::new("msaas:dev:").unwrap();
            builder.namespace(namespace).check()
        };
        let error = check(ClientBuilder::new("sqlite::memory:")).unwrap_err().to_string();
        assert!(error.contains("a prefix of Redis keys"), "{error}");
        assert!(check(ClientBuilder::new("postgres://localhost").wake(ListenNotify)).is_err());
        assert!(check(ClientBuilder::new("postgres://localhost").wake("redis://localhost")).is_ok());
        assert!(check(ClientBuilder::new("redis://localhost")).is_ok());
    }

    #[test]
    fn what_cannot_wake_a_store_is_refused_with_a_reason() {
        let refused =
            |store: &str, by: &str| ClientBuilder::new(store).wake(by).check().unwrap_err().to_string();
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
            assert!(ClientBuilder::new("sqlite:app.db").wake(by).check().is_ok(), "{by}");
            assert!(ClientBuilder::new("postgres://localhost").wake(by).check().is_ok(), "{by}");
        }
    }

    #[test]
    fn the_wake_transport_never_shows_a_password() {
        let builder = ClientBuilder::new("postgres://localhost").wake("redis://:hunter2@localhost");
        assert!(!format!("{builder:?}").contains("hunter2"));
    }
}

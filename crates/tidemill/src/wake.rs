//! The transport of wake-ups between processes: [`ClientBuilder::wake`](crate::ClientBuilder::wake).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidemill_core::wake::Transport;
pub use tidemill_core::wake::{NoTransport, PollInterval};
use tidemill_core::{Error, Namespace};

/// Wake-ups by LISTEN and NOTIFY: the default of a PostgreSQL store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenNotify;

/// The transport of wake-ups between processes. A lost wake-up delays a job by a few seconds at
/// most, because idle workers also poll.
pub struct WakeTransport(pub(crate) WakeMethod);

pub(crate) enum WakeMethod {
    ListenNotify,
    InProcess,
    #[cfg(feature = "redis")]
    Redis(Box<tidemill_redis::RedisOptions>),
}

/// Argument of [`ClientBuilder::wake`](crate::ClientBuilder::wake): the URL of a Redis server,
/// [`ListenNotify`] or [`NoTransport`].
pub trait IntoWakeTransport {
    /// Converts it. Opens nothing yet.
    fn into_wake_transport(self) -> Result<WakeTransport, Error>;
}

impl IntoWakeTransport for WakeTransport {
    fn into_wake_transport(self) -> Result<WakeTransport, Error> {
        Ok(self)
    }
}

impl IntoWakeTransport for ListenNotify {
    fn into_wake_transport(self) -> Result<WakeTransport, Error> {
        Ok(WakeTransport(WakeMethod::ListenNotify))
    }
}

impl IntoWakeTransport for NoTransport {
    fn into_wake_transport(self) -> Result<WakeTransport, Error> {
        Ok(WakeTransport(WakeMethod::InProcess))
    }
}

impl IntoWakeTransport for &str {
    fn into_wake_transport(self) -> Result<WakeTransport, Error> {
        self.parse()
    }
}

impl FromStr for WakeTransport {
    type Err = Error;

    /// Parses `listen`, `none` or the URL of a Redis server.
    fn from_str(text: &str) -> Result<Self, Error> {
        // The URL may contain a password, so the error shows only its scheme.
        let scheme = text.split(':').next().unwrap_or_default();
        #[cfg(feature = "redis")]
        if tidemill_redis::is_redis_url(text) {
            return tidemill_redis::RedisOptions::parse(text)
                .map(|options| Self(WakeMethod::Redis(Box::new(options))));
        }
        match scheme {
            "listen" => Ok(Self(WakeMethod::ListenNotify)),
            "none" => Ok(Self(WakeMethod::InProcess)),
            _ => Err(Error::Invalid(format!(
                "{scheme:?} is not a wake-up transport: use redis://…, rediss://…, redis+cluster://…, redis+sentinel://…, redis+unix://…, listen or none"
            ))),
        }
    }
}

impl fmt::Debug for WakeTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            WakeMethod::ListenNotify => f.write_str("LISTEN/NOTIFY"),
            WakeMethod::InProcess => f.write_str("in process"),
            #[cfg(feature = "redis")]
            WakeMethod::Redis(options) => options.fmt(f),
        }
    }
}

impl WakeTransport {
    /// Whether its channels have a prefix.
    pub(crate) fn has_namespace(&self) -> bool {
        match &self.0 {
            WakeMethod::ListenNotify | WakeMethod::InProcess => false,
            #[cfg(feature = "redis")]
            WakeMethod::Redis(_) => true,
        }
    }

    /// Connects the transport. `None` selects the store's own transport.
    pub(crate) async fn into_transport(
        self,
        namespace: Option<Namespace>,
    ) -> Result<Option<Arc<dyn Transport>>, Error> {
        // Only Redis has named channels.
        let _ = &namespace;
        Ok(match self.0 {
            WakeMethod::ListenNotify => None,
            WakeMethod::InProcess => Some(Arc::new(NoTransport)),
            #[cfg(feature = "redis")]
            WakeMethod::Redis(options) => {
                let options = match namespace {
                    Some(namespace) => options.namespace(namespace),
                    None => *options,
                };
                Some(Arc::new(tidemill_redis::RedisTransport::connect(options).await?))
            }
        })
    }
}

//! How idle workers of one process learn of work from another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidemill_core::wake::{NoTransport, Transport};
use tidemill_core::{Error, Namespace};

/// Wake-ups by LISTEN and NOTIFY: what a PostgreSQL store does unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen;

/// How wake-ups travel between processes. Whatever is chosen, a lost one costs a few seconds at most, because
/// idle workers also look by themselves.
pub struct WakeUps(pub(crate) Way);

pub(crate) enum Way {
    Listen,
    InProcess,
    #[cfg(feature = "redis")]
    Redis(Box<tidemill_redis::RedisOptions>),
}

/// What can be given to [`Connector::wake`](crate::Connector::wake): the URL of a Redis server, [`Listen`] or
/// [`NoTransport`].
pub trait IntoWakeUps {
    /// Reads it. Nothing is opened yet.
    fn into_wake_ups(self) -> Result<WakeUps, Error>;
}

impl IntoWakeUps for WakeUps {
    fn into_wake_ups(self) -> Result<WakeUps, Error> {
        Ok(self)
    }
}

impl IntoWakeUps for Listen {
    fn into_wake_ups(self) -> Result<WakeUps, Error> {
        Ok(WakeUps(Way::Listen))
    }
}

impl IntoWakeUps for NoTransport {
    fn into_wake_ups(self) -> Result<WakeUps, Error> {
        Ok(WakeUps(Way::InProcess))
    }
}

impl IntoWakeUps for &str {
    fn into_wake_ups(self) -> Result<WakeUps, Error> {
        self.parse()
    }
}

impl FromStr for WakeUps {
    type Err = Error;

    /// Reads `listen`, `none` or the URL of a Redis server.
    fn from_str(text: &str) -> Result<Self, Error> {
        // The URL may hold a password, so only its scheme is shown.
        let scheme = text.split(':').next().unwrap_or_default();
        #[cfg(feature = "redis")]
        if tidemill_redis::is_redis_url(text) {
            return tidemill_redis::RedisOptions::parse(text)
                .map(|options| Self(Way::Redis(Box::new(options))));
        }
        match scheme {
            "listen" => Ok(Self(Way::Listen)),
            "none" => Ok(Self(Way::InProcess)),
            _ => Err(Error::Invalid(format!(
                "{scheme:?} wakes nobody: use redis://…, rediss://…, redis+cluster://…, redis+sentinel://…, redis+unix://…, listen or none"
            ))),
        }
    }
}

impl fmt::Debug for WakeUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Way::Listen => f.write_str("LISTEN/NOTIFY"),
            Way::InProcess => f.write_str("in process"),
            #[cfg(feature = "redis")]
            Way::Redis(options) => options.fmt(f),
        }
    }
}

impl WakeUps {
    /// Whether its channels have a prefix.
    pub(crate) fn has_namespace(&self) -> bool {
        match &self.0 {
            Way::Listen | Way::InProcess => false,
            #[cfg(feature = "redis")]
            Way::Redis(_) => true,
        }
    }

    /// Whoever carries them; nobody if the store's own way is meant.
    pub(crate) async fn courier(
        self,
        namespace: Option<Namespace>,
    ) -> Result<Option<Arc<dyn Transport>>, Error> {
        // Only Redis has channels to name.
        let _ = &namespace;
        Ok(match self.0 {
            Way::Listen => None,
            Way::InProcess => Some(Arc::new(NoTransport)),
            #[cfg(feature = "redis")]
            Way::Redis(options) => {
                let options = match namespace {
                    Some(namespace) => options.namespace(namespace),
                    None => *options,
                };
                Some(Arc::new(tidemill_redis::RedisTransport::connect(options).await?))
            }
        })
    }
}

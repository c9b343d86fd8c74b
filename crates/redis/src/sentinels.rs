//! Sentinels: their addresses, and a client that asks them for the master.

use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{ConnectionAddr, ConnectionInfo, RedisError, TlsCertificates, TlsMode};

/// The Sentinels of a URL.
#[derive(Clone)]
pub(crate) struct Sentinels {
    pub(crate) addresses: Vec<ConnectionAddr>,
    /// Their name for the master.
    pub(crate) master: String,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    /// For the Sentinels and the servers.
    pub(crate) certificates: Option<TlsCertificates>,
    pub(crate) is_tls: bool,
}

impl Sentinels {
    /// A client that finds the master, with the credentials and the database of `info`. The driver
    /// verifies the master by ROLE.
    pub(crate) fn client(&self, info: &ConnectionInfo) -> Result<SentinelClient, RedisError> {
        let (addresses, settings) = (self.addresses.clone(), info.redis_settings());
        let mut builder =
            SentinelClientBuilder::new(addresses, self.master.clone(), SentinelServerType::Master)?
                .set_client_to_redis_db(settings.db());
        if let Some(username) = settings.username() {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = settings.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(username) = &self.username {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = &self.password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if self.is_tls {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(certificates) = &self.certificates {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates.clone());
        }
        builder.build()
    }

    /// The address as shown to users.
    pub(crate) fn display_address(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        format!("{} (by Sentinel {})", self.master, addresses.join(","))
    }
}

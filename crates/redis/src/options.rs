//! Options of a Redis store, read from its URL.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use redis::{ConnectionInfo, TlsCertificates};
use tidemill_core::{Error, Namespace, QueueName};

use crate::sentinels::Sentinels;
use crate::tls::{self, CertificateFiles};
use crate::url::{RedisUrl, UrlKind, invalid_url};

/// Default number of shards of a Cluster.
const DEFAULT_CLUSTER_SHARDS: u16 = 8;

/// Default lifetime of a hint. A listener that is later polls without one.
const DEFAULT_HINT_TTL: Duration = Duration::from_secs(60);

/// Default consumer group of a queue.
const DEFAULT_GROUP: &str = "tidemill-workers";

/// How to reach and use a Redis store. Contains credentials; `Debug` shows addresses only.
#[derive(Clone)]
pub struct RedisOptions {
    /// The server, or the first Sentinel, with the credentials and the database of the store.
    pub(crate) info: ConnectionInfo,
    pub(crate) cluster: bool,
    pub(crate) sentinels: Option<Sentinels>,
    /// Certificates from the URL; the Cluster driver takes them separately.
    pub(crate) certificates: Option<TlsCertificates>,
    pub(crate) shards: u16,
    pub(crate) replicas: u32,
    pub(crate) namespace: Namespace,
    pub(crate) groups: HashMap<QueueName, String>,
    pub(crate) default_group: String,
    pub(crate) allow_eviction: bool,
    pub(crate) hint_ttl: Duration,
    pub(crate) queuert: QueuertFormat,
}

/// The formats in which jobs are announced to other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuertFormat {
    /// As Queuert up to 0.11: with a hint for each announcement.
    Hinted,
    /// Also as Queuert since 0.12: with the type alone.
    Both,
}

impl RedisOptions {
    /// Parses a URL:
    ///
    /// - `redis://[user:password@]host[:port][/db]`, or `rediss://…` for TLS;
    /// - `redis+cluster://…`, `rediss+cluster://…`: any server of a Cluster;
    /// - `redis+sentinel://[user:password@]host[:port],host[:port]/master[/db]`,
    ///   `rediss+sentinel://…`: the Sentinels, and their name for the master;
    /// - `redis+unix:///path/to/socket`, `unix:///path/to/socket`.
    ///
    /// Parameters: `shards=N` (shards of the keyspace; 8 on a Cluster, else 1), `replicas=N` (an
    /// enqueue waits for that many replicas), `allow_eviction=true`; `db`, `username`, `password`;
    /// `sentinel_username`, `sentinel_password`; with TLS `ssl_ca_certs` (a private authority),
    /// `ssl_certfile` and `ssl_keyfile` (a client certificate), all files in PEM form. For a server
    /// that transports wake-ups: `queuert=both` (the default: every version of Queuert receives
    /// announcements) or `queuert=0.11` (one message less for each announcement; versions from 0.12
    /// on do not receive it).
    pub fn parse(url: &str) -> Result<Self, Error> {
        let RedisUrl { kind, is_tls, info, sentinels, master, parameters } = RedisUrl::parse(url)?;
        let (username, password, certificates) = (None, None, None);
        let sentinels = (kind == UrlKind::Sentinel).then_some(Sentinels {
            addresses: sentinels,
            master,
            username,
            password,
            certificates,
            is_tls,
        });
        let cluster = kind == UrlKind::Cluster;
        let mut options = Self {
            info,
            cluster,
            sentinels,
            certificates: None,
            shards: if cluster { DEFAULT_CLUSTER_SHARDS } else { 1 },
            replicas: 0,
            namespace: Namespace::default(),
            groups: HashMap::new(),
            default_group: DEFAULT_GROUP.to_owned(),
            allow_eviction: false,
            hint_ttl: DEFAULT_HINT_TTL,
            queuert: QueuertFormat::Both,
        };
        let mut files = CertificateFiles::default();
        for (name, value) in parameters {
            options.set_parameter(&name, value, &mut files)?;
        }
        if !files.is_empty() {
            options.apply_certificates(&files, is_tls)?;
        }
        Ok(options)
    }

    fn set_parameter(
        &mut self,
        name: &str,
        value: String,
        files: &mut CertificateFiles,
    ) -> Result<(), Error> {
        let bad = |value: &str| invalid_url(&format!("has {name}={value}, which is not valid"));
        let settings = self.info.redis_settings().clone();
        match (name, &mut self.sentinels) {
            ("shards", _) => {
                let shards = value.parse().ok().filter(|n| (1..=1024).contains(n));
                self.shards = shards.ok_or_else(|| bad(&value))?;
            }
            ("replicas", _) => self.replicas = value.parse().map_err(|_| bad(&value))?,
            ("allow_eviction", _) => self.allow_eviction = value.parse().map_err(|_| bad(&value))?,
            ("queuert", _) => {
                self.queuert = match value.as_str() {
                    "both" => QueuertFormat::Both,
                    "0.11" => QueuertFormat::Hinted,
                    _ => return Err(bad(&value)),
                };
            }
            ("db", _) => {
                let database = value.parse().map_err(|_| bad(&value))?;
                self.info = self.info.clone().set_redis_settings(settings.set_db(database));
            }
            ("username", _) => self.info = self.info.clone().set_redis_settings(settings.set_username(value)),
            ("password", _) => self.info = self.info.clone().set_redis_settings(settings.set_password(value)),
            (tls::CA_CERTS_PARAM, _) => files.authority = Some(value),
            (tls::CERT_FILE_PARAM, _) => files.certificate = Some(value),
            (tls::KEY_FILE_PARAM, _) => files.key = Some(value),
            ("sentinel_username", Some(sentinels)) => sentinels.username = Some(value),
            ("sentinel_password", Some(sentinels)) => sentinels.password = Some(value),
            ("sentinel_username" | "sentinel_password", None) => {
                return Err(invalid_url(&format!("has {name}, which is for redis+sentinel:// only")));
            }
            _ => return Err(invalid_url(&format!("has the unknown parameter {name:?}"))),
        }
        Ok(())
    }

    /// Applies the certificates that the URL names.
    fn apply_certificates(&mut self, files: &CertificateFiles, is_tls: bool) -> Result<(), Error> {
        if !is_tls {
            let names = [tls::CA_CERTS_PARAM, tls::CERT_FILE_PARAM, tls::KEY_FILE_PARAM].join(", ");
            return Err(invalid_url(&format!("has certificates ({names}) but no TLS: use rediss://")));
        }
        let certificates = files.read()?;
        self.info = tls::with_certificates(self.info.clone(), certificates.clone())?;
        if let Some(sentinels) = &mut self.sentinels {
            sentinels.certificates = Some(certificates.clone());
        }
        self.certificates = Some(certificates);
        Ok(())
    }

    /// The address of the store, without credentials.
    pub(crate) fn display_address(&self) -> String {
        match &self.sentinels {
            Some(sentinels) => sentinels.display_address(),
            None => self.info.addr().to_string(),
        }
    }

    /// Sets the prefix of every key and channel.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets the number of shards of the keyspace.
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards.max(1);
        self
    }

    /// Sets the consumer group of one queue.
    pub fn group(mut self, queue: QueueName, group: &str) -> Self {
        self.groups.insert(queue, group.to_owned());
        self
    }

    /// Sets the consumer group of every other queue.
    pub fn default_group(mut self, group: &str) -> Self {
        self.default_group = group.to_owned();
        self
    }

    /// Accepts a server that may evict keys, including queues, when its memory is full.
    pub fn allow_eviction(mut self) -> Self {
        self.allow_eviction = true;
        self
    }

    /// Sets the lifetime of hints, in whole seconds. For tests.
    #[doc(hidden)]
    pub fn hint_ttl(mut self, ttl: Duration) -> Self {
        self.hint_ttl = ttl;
        self
    }

    /// The number of the database.
    pub(crate) fn database(&self) -> i64 {
        self.info.redis_settings().db()
    }

    pub(crate) fn group_of(&self, queue: &QueueName) -> &str {
        self.groups.get(queue).unwrap_or(&self.default_group)
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redis {} {:?}", self.display_address(), self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_urls_and_never_shows_the_password() {
        let options =
            RedisOptions::parse("redis://user:hunter2@10.0.0.1:7000/3?shards=4&replicas=1").unwrap();
        assert_eq!((options.shards, options.replicas, options.cluster), (4, 1, false));
        assert!(!format!("{options:?}").contains("hunter2"));
        assert_eq!(RedisOptions::parse("redis+cluster://localhost:7000").unwrap().shards, 8);
    }

    #[test]
    fn reads_sentinels_and_sockets_and_never_shows_a_password() {
        let url = "redis+sentinel://me:hunter2@a,b/main?sentinel_password=hunter2&db=2";
        let options = RedisOptions::parse(url).unwrap();
        assert_eq!(format!("{options:?}"), "redis main (by Sentinel a:26379,b:26379) \"tidemill:\"");
        assert_eq!(options.info.redis_settings().db(), 2);
        for url in
            ["unix:///run/redis.sock", "redis+unix:///run/redis.sock?username=me&password=hunter%322&db=1"]
        {
            let shown = format!("{:?}", RedisOptions::parse(url).unwrap());
            assert_eq!(shown, "redis /run/redis.sock \"tidemill:\"");
        }
    }

    #[test]
    fn names_the_parameter_that_is_wrong_and_no_secret() {
        for (url, named) in [
            ("redis://h?sentinel_password=hunter2", "sentinel_password, which is for redis+sentinel://"),
            ("redis://h?ssl_ca_certs=/x", "use rediss://"),
            ("rediss://h?ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs=/nowhere/ca.pem, which cannot be read"),
            ("rediss://h?ssl_ca_certs=/dev/null", "no CERTIFICATE in PEM form"),
            ("rediss://h?ssl_certfile=/x", "ssl_certfile without ssl_keyfile"),
            ("redis://h?db=one", "db=one"),
            ("redis://h?passwort=hunter2", "unknown parameter \"passwort\""),
        ] {
            let error = RedisOptions::parse(url).unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for bad in ["redis://", "http://x", "redis://h?shards=0", "redis://h?shard=8", "redis://h?replicas=x"]
        {
            assert!(matches!(RedisOptions::parse(bad), Err(Error::Invalid(_))), "{bad}");
        }
    }
}

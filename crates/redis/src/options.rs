//! Where the store is and how it is used.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};
use tidemill_core::{Error, Namespace, QueueName};

/// How many slices a Cluster's keyspace is cut into when nobody says otherwise.
const CLUSTER_SHARDS: u16 = 8;

/// How long a hint is kept: whoever has not looked by then looks without one.
const HINT_TTL: Duration = Duration::from_secs(60);

/// The consumer group of a queue when nobody says otherwise.
const GROUP: &str = "tidemill-workers";

/// How to reach and use a Redis store. Holds credentials: it shows addresses only.
#[derive(Clone)]
pub struct Options {
    pub(crate) info: ConnectionInfo,
    pub(crate) cluster: bool,
    pub(crate) shards: u16,
    pub(crate) replicas: u32,
    pub(crate) namespace: Namespace,
    pub(crate) groups: HashMap<QueueName, String>,
    pub(crate) default_group: String,
    pub(crate) allow_eviction: bool,
    pub(crate) hint_ttl: Duration,
}

impl Options {
    /// Reads `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS) or `redis+cluster://…`
    /// (`rediss+cluster://…`), with the parameters `shards=N` (slices of the keyspace; 8 on a Cluster, else
    /// 1), `replicas=N` (an enqueue waits for that many replicas) and `allow_eviction=true`.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let cluster = base.starts_with("redis+cluster://") || base.starts_with("rediss+cluster://");
        let plain = base.replacen("+cluster://", "://", 1);
        let info = plain.as_str().into_connection_info().map_err(|error| {
            let reason = error.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
            Error::Invalid(format!(
                "the Redis URL is not valid{reason}: write redis://[user:password@]host[:port][/database], \
                 with special characters of the password percent-encoded"
            ))
        })?;
        let mut options = Self {
            info,
            cluster,
            shards: if cluster { CLUSTER_SHARDS } else { 1 },
            replicas: 0,
            namespace: Namespace::default(),
            groups: HashMap::new(),
            default_group: GROUP.to_owned(),
            allow_eviction: false,
            hint_ttl: HINT_TTL,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            options.set(pair)?;
        }
        Ok(options)
    }

    fn set(&mut self, pair: &str) -> Result<(), Error> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let bad = || Error::Invalid(format!("the Redis URL has {name}={value}, which is not valid"));
        match name {
            "shards" => {
                self.shards = value.parse().ok().filter(|n| (1..=1024).contains(n)).ok_or_else(bad)?
            }
            "replicas" => self.replicas = value.parse().map_err(|_| bad())?,
            "allow_eviction" => self.allow_eviction = value.parse().map_err(|_| bad())?,
            _ => return Err(Error::Invalid(format!("the Redis URL has the unknown parameter {name:?}"))),
        }
        Ok(())
    }

    /// Puts this prefix before every key and channel.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Cuts the keyspace into this many slices.
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards.max(1);
        self
    }

    /// Names the consumer group of one queue.
    pub fn group(mut self, queue: QueueName, group: &str) -> Self {
        self.groups.insert(queue, group.to_owned());
        self
    }

    /// Names the consumer group of every queue that has no other.
    pub fn default_group(mut self, group: &str) -> Self {
        self.default_group = group.to_owned();
        self
    }

    /// Accepts a server that may delete keys when its memory is full, queues included.
    pub fn allow_eviction(mut self) -> Self {
        self.allow_eviction = true;
        self
    }

    /// Keeps hints for this long, in whole seconds, instead of a minute. For tests.
    #[doc(hidden)]
    pub fn hint_ttl(mut self, ttl: Duration) -> Self {
        self.hint_ttl = ttl;
        self
    }

    pub(crate) fn group_of(&self, queue: &QueueName) -> &str {
        self.groups.get(queue).unwrap_or(&self.default_group)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redis {} {:?}", self.info.addr(), self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_urls_and_never_shows_the_password() {
        let options = Options::parse("redis://user:hunter2@10.0.0.1:7000/3?shards=4&replicas=1").unwrap();
        assert_eq!((options.shards, options.replicas, options.cluster), (4, 1, false));
        assert!(!format!("{options:?}").contains("hunter2"));
        assert_eq!(Options::parse("redis+cluster://localhost:7000").unwrap().shards, 8);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for bad in ["redis://", "http://x", "redis://h?shards=0", "redis://h?shard=8", "redis://h?replicas=x"]
        {
            assert!(matches!(Options::parse(bad), Err(Error::Invalid(_))), "{bad}");
        }
    }
}

//! The checkup: version, durability and health of the server.

use std::collections::HashMap;

use tidemill_core::store::{Checkup, Durability, Finding, Severity};
use tidemill_core::{Error, Store};

use crate::connection::Connections;
use crate::connection::reply::text;
use crate::error::{classify, is_denied, unexpected_reply};
use crate::options::RedisOptions;
use crate::store::RedisStore;

/// The server's description of itself.
#[derive(Debug)]
pub(crate) struct ServerInfo {
    info: HashMap<String, String>,
    pub(crate) version: (u32, u32),
    /// Whether INFO was permitted. Without it only version, role and mode are known.
    has_info: bool,
}

impl ServerInfo {
    pub(crate) async fn fetch(connections: &Connections) -> Result<Self, Error> {
        let (mut info, mut is_open) = (HashMap::new(), true);
        for section in ["server", "memory", "persistence", "replication", "cluster"] {
            let command = redis::cmd("INFO").arg(section).take();
            let reply = match connections.send(0, &command).await {
                Err(error) if is_denied(&error) => {
                    (info, is_open) = (hello(connections).await?, false);
                    break;
                }
                reply => text(reply.map_err(|error| classify("INFO", error))?).unwrap_or_default(),
            };
            let pairs = reply.lines().filter_map(|line| line.trim().split_once(':'));
            info.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let version = info.get("redis_version").map(String::as_str).unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Ok(Self { info, version, has_info: is_open })
    }

    fn has(&self, field: &str, value: &str) -> bool {
        self.info.get(field).is_some_and(|found| found == value)
    }

    fn name(&self) -> String {
        let version = |field| self.info.get(field).map(String::as_str).unwrap_or("?");
        match self.info.get("valkey_version") {
            Some(valkey) => format!("valkey {valkey}"),
            None => format!("redis {}", version("redis_version")),
        }
    }

    /// Rejects a server on which jobs could be lost, or scripts would not run.
    pub(crate) fn check(&self, options: &RedisOptions) -> Result<(), Error> {
        if self.version < (6, 2) {
            return Err(Error::Unsuitable(format!(
                "{} is too old: 6.2 is the oldest that works",
                self.name()
            )));
        }
        if self.has("role", "slave") {
            return Err(Error::Unsuitable("this server is a replica: connect to its primary".into()));
        }
        if self.has("cluster_enabled", "1") && !options.cluster {
            return Err(Error::Unsuitable("this server is part of a Cluster: use redis+cluster://".into()));
        }
        if self.evicts() && !options.allow_eviction {
            return Err(Error::Unsuitable(format!(
                "it may delete jobs when its memory is full (maxmemory-policy {}): set it to noeviction, or \
                 connect with allow_eviction=true",
                self.policy()
            )));
        }
        Ok(())
    }

    fn policy(&self) -> &str {
        self.info.get("maxmemory_policy").map_or("unknown", String::as_str)
    }

    fn evicts(&self) -> bool {
        self.has_info && self.policy() != "noeviction"
    }

    pub(crate) fn durability(&self, options: &RedisOptions) -> Durability {
        if options.replicas > 0 {
            Durability::Replicated
        } else if self.has("aof_enabled", "1") {
            // INFO does not show whether the log is synced before each reply.
            Durability::Process
        } else {
            Durability::Volatile
        }
    }
}

/// The server's reply to HELLO, by the names that INFO uses.
async fn hello(connections: &Connections) -> Result<HashMap<String, String>, Error> {
    let reply = connections.send(0, &redis::cmd("HELLO")).await.map_err(|error| classify("HELLO", error))?;
    let fields: HashMap<String, redis::Value> =
        redis::from_redis_value(reply).map_err(|_| unexpected_reply("HELLO"))?;
    let field = |name: &str| fields.get(name).cloned().and_then(text).unwrap_or_default();
    let role = if field("role") == "replica" { "slave" } else { "master" };
    let in_cluster = if field("mode") == "cluster" { "1" } else { "0" };
    let info =
        [("redis_version", field("version")), ("role", role.into()), ("cluster_enabled", in_cluster.into())];
    Ok(info.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl RedisStore {
    pub(crate) async fn run_checkup(&self) -> Result<Checkup, Error> {
        let server = ServerInfo::fetch(&self.connections).await?;
        let fsync = self.appendfsync().await;
        let durability = match self.durability() {
            Durability::Process if fsync.as_deref() == Some("always") => Durability::Fsync,
            known => known,
        };
        let mut findings = vec![Finding::new(Severity::Good, "version", server.name())];
        if server.has_info {
            findings.extend([eviction(&server), persistence(&server, fsync.as_deref()), memory(&server)]);
        }
        findings.extend(self.connections.missing_permissions().await?.findings());
        findings.extend(self.dead_letter_findings().await?);
        findings.extend(self.unless_damaged("counting alarms", self.damaged_timers().await)?);
        findings.extend(self.damage_findings().await?);
        Ok(Checkup { server: server.name(), durability, findings })
    }

    /// How the log is synced; `None` where CONFIG is denied, as on many hosted servers.
    async fn appendfsync(&self) -> Option<String> {
        let command = redis::cmd("CONFIG").arg("GET").arg("appendfsync").take();
        let pair: Vec<String> = self.connections.query(0, &command).await.ok()?;
        pair.into_iter().nth(1)
    }

    /// Members of the runs' timers that were set aside as damaged.
    async fn damaged_timers(&self) -> Result<Option<Finding>, Error> {
        let mut count: u64 = 0;
        for shard in 0..self.keys.shards() {
            let command = redis::cmd("ZCARD").arg(self.keys.damaged_timers(shard)).take();
            count += self.connections.query::<u64>(shard, &command).await?;
        }
        let message = format!(
            "{count} damaged alarms were set aside in `damaged-timers`: look at them, then delete it"
        );
        Ok((count > 0).then(|| Finding::new(Severity::Bad, "timers", message)))
    }

    /// Queues with dead letters.
    async fn dead_letter_findings(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        for info in self.queue_infos().await? {
            if info.dead > 0 {
                let message =
                    format!("{} dead letters: `tidemill dlq list --queue {}`", info.dead, info.queue.name);
                findings.push(Finding::new(Severity::Warning, format!("queue {}", info.queue), message));
            }
        }
        Ok(findings)
    }
}

fn eviction(server: &ServerInfo) -> Finding {
    let policy = server.policy();
    if server.evicts() {
        let message = format!("maxmemory-policy is {policy}: jobs may be deleted; set it to noeviction");
        return Finding::new(Severity::Bad, "eviction", message);
    }
    Finding::new(Severity::Good, "eviction", format!("maxmemory-policy is {policy}"))
}

fn persistence(server: &ServerInfo, fsync: Option<&str>) -> Finding {
    if server.has("aof_enabled", "1") {
        return Finding::new(
            Severity::Good,
            "persistence",
            format!("append-only file, fsync {}", fsync.unwrap_or("unknown")),
        );
    }
    let message = "no append-only file: jobs enqueued since the last snapshot are lost when the server dies; set appendonly yes";
    Finding::new(Severity::Warning, "persistence", message)
}

fn memory(server: &ServerInfo) -> Finding {
    let number =
        |field: &str| server.info.get(field).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let (used, max) = (number("used_memory"), number("maxmemory"));
    let mib = |bytes: u64| bytes >> 20;
    if max > 0 && used > max / 10 * 9 {
        let message = format!("{} of {} MiB used: enqueues are refused when it is full", mib(used), mib(max));
        return Finding::new(Severity::Bad, "memory", message);
    }
    let limit = if max == 0 { "no limit".to_owned() } else { format!("limit {} MiB", mib(max)) };
    Finding::new(Severity::Good, "memory", format!("{} MiB used, {limit}", mib(used)))
}

//! What kind of server this is, and whether jobs are safe there.

use std::collections::HashMap;

use tidemill_core::store::{Checkup, Durability, Finding, Severity};
use tidemill_core::{Error, Store};

use crate::connection::Link;
use crate::connection::reply::text;
use crate::error::{classify, is_denied, odd_answer};
use crate::options::Options;
use crate::store::RedisStore;

/// What a server says of itself.
#[derive(Debug)]
pub(crate) struct Server {
    info: HashMap<String, String>,
    pub(crate) version: (u32, u32),
    /// Whether INFO was allowed. Without it only version, role and mode are known.
    is_open: bool,
}

impl Server {
    pub(crate) async fn ask(link: &Link) -> Result<Self, Error> {
        let (mut info, mut is_open) = (HashMap::new(), true);
        for section in ["server", "memory", "persistence", "replication", "cluster"] {
            let ask = redis::cmd("INFO").arg(section).take();
            let answer = match link.send(0, &ask).await {
                Err(error) if is_denied(&error) => {
                    (info, is_open) = (greeting(link).await?, false);
                    break;
                }
                answer => text(answer.map_err(|error| classify("INFO", error))?).unwrap_or_default(),
            };
            let pairs = answer.lines().filter_map(|line| line.trim().split_once(':'));
            info.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let version = info.get("redis_version").map(String::as_str).unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Ok(Self { info, version, is_open })
    }

    fn is(&self, field: &str, value: &str) -> bool {
        self.info.get(field).is_some_and(|found| found == value)
    }

    fn name(&self) -> String {
        let version = |field| self.info.get(field).map(String::as_str).unwrap_or("?");
        match self.info.get("valkey_version") {
            Some(valkey) => format!("valkey {valkey}"),
            None => format!("redis {}", version("redis_version")),
        }
    }

    /// Refuses a server on which jobs would get lost, or scripts would not run.
    pub(crate) fn check(&self, options: &Options) -> Result<(), Error> {
        if self.version < (6, 2) {
            return Err(Error::Unsuitable(format!(
                "{} is too old: 6.2 is the oldest that works",
                self.name()
            )));
        }
        if self.is("role", "slave") {
            return Err(Error::Unsuitable("this server is a replica: connect to its primary".into()));
        }
        if self.is("cluster_enabled", "1") && !options.cluster {
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
        self.is_open && self.policy() != "noeviction"
    }

    pub(crate) fn durability(&self, options: &Options) -> Durability {
        if options.replicas > 0 {
            Durability::Replicated
        } else if self.is("aof_enabled", "1") {
            // Whether the log is synced before each answer is a setting that INFO does not show.
            Durability::Process
        } else {
            Durability::Volatile
        }
    }
}

/// What a server says of itself in its greeting, by the names that INFO uses.
async fn greeting(link: &Link) -> Result<HashMap<String, String>, Error> {
    let answer = link.send(0, &redis::cmd("HELLO")).await.map_err(|error| classify("HELLO", error))?;
    let fields: HashMap<String, redis::Value> =
        redis::from_redis_value(answer).map_err(|_| odd_answer("HELLO"))?;
    let said = |name: &str| fields.get(name).cloned().and_then(text).unwrap_or_default();
    let role = if said("role") == "replica" { "slave" } else { "master" };
    let in_cluster = if said("mode") == "cluster" { "1" } else { "0" };
    let info =
        [("redis_version", said("version")), ("role", role.into()), ("cluster_enabled", in_cluster.into())];
    Ok(info.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl RedisStore {
    pub(crate) async fn examine(&self) -> Result<Checkup, Error> {
        let server = Server::ask(&self.link).await?;
        let fsync = self.appendfsync().await;
        let durability = match self.durability() {
            Durability::Process if fsync.as_deref() == Some("always") => Durability::Fsync,
            known => known,
        };
        let mut findings = vec![Finding::new(Severity::Good, "version", server.name())];
        if server.is_open {
            findings.extend([eviction(&server), persistence(&server, fsync.as_deref()), memory(&server)]);
        }
        findings.extend(self.link.rights().await?.findings());
        findings.extend(self.leftovers().await?);
        findings.extend(self.unless_damaged("counting alarms", self.damaged_alarms().await)?);
        findings.extend(self.damage().await?);
        Ok(Checkup { server: server.name(), durability, findings })
    }

    /// How the log is synced; `None` where CONFIG is not allowed, as on many hosted servers.
    async fn appendfsync(&self) -> Option<String> {
        let ask = redis::cmd("CONFIG").arg("GET").arg("appendfsync").take();
        let pair: Vec<String> = self.link.query(0, &ask).await.ok()?;
        pair.into_iter().nth(1)
    }

    /// What stood among the alarms of runs and was none.
    async fn damaged_alarms(&self) -> Result<Option<Finding>, Error> {
        let mut count: u64 = 0;
        for shard in 0..self.keys.shards() {
            let ask = redis::cmd("ZCARD").arg(self.keys.damaged_timers(shard)).take();
            count += self.link.query::<u64>(shard, &ask).await?;
        }
        let message = format!(
            "{count} damaged alarms were set aside in `damaged-timers`: look at them, then delete it"
        );
        Ok((count > 0).then(|| Finding::new(Severity::Bad, "timers", message)))
    }

    /// Workers that died and left consumers behind.
    async fn leftovers(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        for info in self.known_queues().await? {
            if info.dead > 0 {
                let message =
                    format!("{} dead letters: `tidemill dlq list --queue {}`", info.dead, info.queue.name);
                findings.push(Finding::new(Severity::Warning, format!("queue {}", info.queue), message));
            }
        }
        Ok(findings)
    }
}

fn eviction(server: &Server) -> Finding {
    let policy = server.policy();
    if server.evicts() {
        let message = format!("maxmemory-policy is {policy}: jobs may be deleted; set it to noeviction");
        return Finding::new(Severity::Bad, "eviction", message);
    }
    Finding::new(Severity::Good, "eviction", format!("maxmemory-policy is {policy}"))
}

fn persistence(server: &Server, fsync: Option<&str>) -> Finding {
    if server.is("aof_enabled", "1") {
        return Finding::new(
            Severity::Good,
            "persistence",
            format!("append-only file, fsync {}", fsync.unwrap_or("unknown")),
        );
    }
    let message = "no append-only file: jobs enqueued since the last snapshot are lost when the server dies; set appendonly yes";
    Finding::new(Severity::Warning, "persistence", message)
}

fn memory(server: &Server) -> Finding {
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

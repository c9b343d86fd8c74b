//! A Redis master and a replica, watched by three Sentinels that fail over when the master dies.

use std::fs;
use std::path::Path;

use super::process::{ServerProcess, ServerSpec};
use super::redis::{Redis, RedisOptions, RedisTls};
use super::{ServerError, port, resp, start_on_free_port, wait_for};

/// The name of the master in the Sentinels.
const MASTER: &str = "mymaster";

/// The number of Sentinels. The quorum is two.
const SENTINELS: usize = 3;

/// How long the master may be silent before a Sentinel considers it down, in ms.
const DOWN_AFTER_MS: u32 = 1_000;

/// A master, a replica and three Sentinels. Dropping it stops them.
pub struct RedisSentinel {
    servers: [Redis; 2],
    sentinels: Vec<Sentinel>,
    password: Option<String>,
}

struct Sentinel {
    process: ServerProcess,
    port: u16,
    tls_port: Option<u16>,
}

impl RedisSentinel {
    /// Starts all servers, and waits until every Sentinel knows all the others.
    pub fn start() -> Result<Self, ServerError> {
        Self::with(RedisOptions::default(), None)
    }

    /// Starts servers with these options, and Sentinels with this password. If the servers use TLS,
    /// so do the Sentinels, and all of them among themselves.
    pub fn with(options: RedisOptions, password: Option<&str>) -> Result<Self, ServerError> {
        let mut options = options;
        if options.tls.is_some() {
            options.args.extend(["--tls-replication".into(), "yes".into()]);
        }
        let master = Redis::with(options.clone())?;
        let mut of_replica = options.clone();
        of_replica.args.extend(["--replicaof".into(), "127.0.0.1".into(), address(&master).to_string()]);
        let replica = Redis::with(of_replica)?;
        let settings = SentinelSettings { master: address(&master), password, tls: options.tls.as_ref() };
        let start = |_| start_on_free_port(|port| Sentinel::on(port, &settings));
        let sentinels = (0..SENTINELS).map(start).collect::<Result<_, _>>()?;
        let all = Self { servers: [master, replica], sentinels, password: password.map(str::to_owned) };
        let agreed = format!(
            "status=ok,address=127.0.0.1:{},slaves=1,sentinels={SENTINELS}",
            address(&all.servers[0])
        );
        wait_for("the Sentinels' agreement", || {
            let views = (0..SENTINELS).map(|index| all.view(index).unwrap_or_default());
            Ok(views.into_iter().all(|view| view.contains(&agreed)).then_some(()))
        })?;
        wait_for("the replica", || {
            let info = all.servers[1].command(&["INFO", "replication"])?;
            Ok((resp::field(&info, "master_link_status") == Some("up")).then_some(()))
        })?;
        Ok(all)
    }

    /// The URL of the master, by way of the Sentinels.
    pub fn url(&self) -> String {
        let scheme = if self.servers[0].tls_port().is_some() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{MASTER}", self.hosts())
    }

    /// The addresses of the Sentinels, as in a URL.
    pub fn hosts(&self) -> String {
        let hosts: Vec<_> = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.tls_port.unwrap_or(sentinel.port)))
            .collect();
        hosts.join(",")
    }

    /// The servers, beginning with the original master.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// Kills one Sentinel.
    pub fn kill_sentinel(&self, index: usize) -> Result<(), ServerError> {
        self.sentinels[index].process.kill()
    }

    /// Waits until two Sentinels see the original replica as the master.
    pub fn wait_for_failover(&self) -> Result<(), ServerError> {
        let new = format!("address=127.0.0.1:{},", address(&self.servers[1]));
        wait_for("the failover", || {
            let sees_it = |index: &usize| self.view(*index).is_ok_and(|view| view.contains(&new));
            let is_master = || {
                let info = self.servers[1].command(&["INFO", "replication"]).unwrap_or_default();
                resp::field(&info, "role") == Some("master")
            };
            Ok(((0..SENTINELS).filter(sees_it).count() >= 2 && is_master()).then_some(()))
        })
    }

    fn view(&self, index: usize) -> Result<String, ServerError> {
        resp::send_with_password(self.sentinels[index].port, self.password.as_deref(), &["INFO", "sentinel"])
    }
}

impl Sentinel {
    fn on(port: u16, settings: &SentinelSettings<'_>) -> Result<Self, ServerError> {
        let directory = tempfile::Builder::new().prefix("tidemill-sentinel-").tempdir()?.keep();
        let file = directory.join("sentinel.conf");
        let tls_port = settings.tls.map(|_| port::free()).transpose()?;
        fs::write(&file, settings.text((port, tls_port), &directory))?;
        let command = vec!["redis-sentinel".to_owned(), file.display().to_string()];
        let process = ServerProcess::new(ServerSpec { directory, command, stop_signal: "KILL" })?;
        let pid = process.start()?.to_string();
        let sentinel = Self { process, port, tls_port };
        wait_for("the start of redis-sentinel", || {
            if !sentinel.process.is_alive() {
                let why = sentinel.process.log_tail();
                return Err(ServerError::new(format!("redis-sentinel ended (is it installed?): {why}")));
            }
            let info =
                resp::send_with_password(port, settings.password, &["INFO", "server"]).unwrap_or_default();
            Ok((resp::field(&info, "process_id") == Some(&pid)).then_some(()))
        })?;
        Ok(sentinel)
    }
}

/// The port by which other servers know a server.
fn address(server: &Redis) -> u16 {
    server.tls_port().unwrap_or(server.port())
}

/// The settings that all Sentinels have in common.
struct SentinelSettings<'a> {
    master: u16,
    password: Option<&'a str>,
    tls: Option<&'a RedisTls>,
}

impl SentinelSettings<'_> {
    fn text(&self, (port, tls_port): (u16, Option<u16>), directory: &Path) -> String {
        let (directory, master) = (directory.display(), self.master);
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("dir {directory}"),
            format!("sentinel monitor {MASTER} 127.0.0.1 {master} 2"),
            format!("sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}"),
            format!("sentinel failover-timeout {MASTER} 5000"),
            format!("sentinel parallel-syncs {MASTER} 1"),
        ];
        if let Some(password) = self.password {
            lines.extend([format!("requirepass {password}"), format!("sentinel sentinel-pass {password}")]);
        }
        if let (Some(tls), Some(port)) = (self.tls, tls_port) {
            lines.extend([
                format!("tls-port {port}"),
                "tls-replication yes".to_owned(),
                format!("tls-cert-file {}", tls.pair.0.display()),
                format!("tls-key-file {}", tls.pair.1.display()),
                format!("tls-ca-cert-file {}", tls.authority.display()),
            ]);
        }
        lines.join("\n") + "\n"
    }
}

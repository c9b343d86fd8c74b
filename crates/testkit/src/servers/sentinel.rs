//! A Redis master with a replica, watched by three Sentinels that replace it when it dies.

use std::fs;
use std::path::Path;

use super::redis::{Redis, RedisOptions, RedisTls};
use super::warden::{Charge, Warden};
use super::{Error, on_some_port, port, resp, wait_for};

/// What the Sentinels call the master.
const MASTER: &str = "mymaster";

/// How many Sentinels there are. Two of them decide.
const SENTINELS: usize = 3;

/// How long the master may be silent before a Sentinel takes it for dead, in ms.
const DOWN_AFTER_MS: u32 = 1_000;

/// A master, a replica and three Sentinels. Dropping it ends them.
pub struct RedisSentinel {
    servers: [Redis; 2],
    sentinels: Vec<Sentinel>,
    password: Option<String>,
}

struct Sentinel {
    warden: Warden,
    port: u16,
    tls_port: Option<u16>,
}

impl RedisSentinel {
    /// Starts them, and waits until every Sentinel knows all the others.
    pub fn start() -> Result<Self, Error> {
        Self::with(RedisOptions::default(), None)
    }

    /// Starts servers as `options` say, and Sentinels that want this password. If the servers speak TLS, so do the
    /// Sentinels, and all of them among themselves.
    pub fn with(options: RedisOptions, password: Option<&str>) -> Result<Self, Error> {
        let mut options = options;
        if options.tls.is_some() {
            options.args.extend(["--tls-replication".into(), "yes".into()]);
        }
        let master = Redis::with(options.clone())?;
        let mut of_replica = options.clone();
        of_replica.args.extend(["--replicaof".into(), "127.0.0.1".into(), address(&master).to_string()]);
        let replica = Redis::with(of_replica)?;
        let settings = Settings { master: address(&master), password, tls: options.tls.as_ref() };
        let start = |_| on_some_port(|port| Sentinel::on(port, &settings));
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

    /// Where the master is, by way of the Sentinels.
    pub fn url(&self) -> String {
        let scheme = if self.servers[0].tls_port().is_some() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{MASTER}", self.hosts())
    }

    /// The addresses of the Sentinels, as a URL has them.
    pub fn hosts(&self) -> String {
        let hosts: Vec<_> = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.tls_port.unwrap_or(sentinel.port)))
            .collect();
        hosts.join(",")
    }

    /// The servers: first the one that began as the master.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// Kills one Sentinel.
    pub fn kill_sentinel(&self, index: usize) -> Result<(), Error> {
        self.sentinels[index].warden.kill()
    }

    /// Waits until the server that began as the replica is the master, as two Sentinels see it.
    pub fn wait_for_failover(&self) -> Result<(), Error> {
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

    fn view(&self, index: usize) -> Result<String, Error> {
        resp::ask_as(self.sentinels[index].port, self.password.as_deref(), &["INFO", "sentinel"])
    }
}

impl Sentinel {
    fn on(port: u16, settings: &Settings<'_>) -> Result<Self, Error> {
        let directory = tempfile::Builder::new().prefix("tidemill-sentinel-").tempdir()?.keep();
        let file = directory.join("sentinel.conf");
        let tls_port = settings.tls.map(|_| port::free()).transpose()?;
        fs::write(&file, settings.text((port, tls_port), &directory))?;
        let command = vec!["redis-sentinel".to_owned(), file.display().to_string()];
        let warden = Warden::new(Charge { directory, command, farewell: "KILL" })?;
        let pid = warden.start()?.to_string();
        let sentinel = Self { warden, port, tls_port };
        wait_for("the start of redis-sentinel", || {
            if !sentinel.warden.is_alive() {
                let why = sentinel.warden.last_words();
                return Err(Error::new(format!("redis-sentinel ended (is it installed?): {why}")));
            }
            let info = resp::ask_as(port, settings.password, &["INFO", "server"]).unwrap_or_default();
            Ok((resp::field(&info, "process_id") == Some(&pid)).then_some(()))
        })?;
        Ok(sentinel)
    }
}

/// By which port other servers know a server.
fn address(server: &Redis) -> u16 {
    server.tls_port().unwrap_or(server.port())
}

/// What all Sentinels have in common.
struct Settings<'a> {
    master: u16,
    password: Option<&'a str>,
    tls: Option<&'a RedisTls>,
}

impl Settings<'_> {
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

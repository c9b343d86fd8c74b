//! A Redis master with a replica, watched by three Sentinels that replace it when it dies.

use std::fs;
use std::path::Path;

use super::redis::{Redis, RedisOptions};
use super::warden::{Charge, Warden};
use super::{Error, on_some_port, resp, wait_for};

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
}

impl RedisSentinel {
    /// Starts them, and waits until every Sentinel knows all the others.
    pub fn start() -> Result<Self, Error> {
        Self::with(RedisOptions::default(), None)
    }

    /// Starts servers as `options` say, and Sentinels that want this password.
    pub fn with(options: RedisOptions, password: Option<&str>) -> Result<Self, Error> {
        let master = Redis::with(options.clone())?;
        let mut of_replica = options;
        of_replica.args.extend(["--replicaof".into(), "127.0.0.1".into(), master.port().to_string()]);
        let replica = Redis::with(of_replica)?;
        let start = |_| on_some_port(|port| Sentinel::on(port, master.port(), password));
        let sentinels = (0..SENTINELS).map(start).collect::<Result<_, _>>()?;
        let all = Self { servers: [master, replica], sentinels, password: password.map(str::to_owned) };
        let agreed =
            format!("status=ok,address=127.0.0.1:{},slaves=1,sentinels={SENTINELS}", all.servers[0].port());
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
        format!("redis+sentinel://{}/{MASTER}", self.hosts())
    }

    /// The addresses of the Sentinels, as a URL has them.
    pub fn hosts(&self) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
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
        let new = format!("address=127.0.0.1:{},", self.servers[1].port());
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
    fn on(port: u16, master: u16, password: Option<&str>) -> Result<Self, Error> {
        let directory = tempfile::Builder::new().prefix("tidemill-sentinel-").tempdir()?.keep();
        let file = directory.join("sentinel.conf");
        fs::write(&file, settings(port, (master, password), &directory))?;
        let command = vec!["redis-sentinel".to_owned(), file.display().to_string()];
        let warden = Warden::new(Charge { directory, command, farewell: "KILL" })?;
        let pid = warden.start()?.to_string();
        let sentinel = Self { warden, port };
        wait_for("the start of redis-sentinel", || {
            if !sentinel.warden.is_alive() {
                let why = sentinel.warden.last_words();
                return Err(Error::new(format!("redis-sentinel ended (is it installed?): {why}")));
            }
            let info = resp::ask_as(port, password, &["INFO", "server"]).unwrap_or_default();
            Ok((resp::field(&info, "process_id") == Some(&pid)).then_some(()))
        })?;
        Ok(sentinel)
    }
}

fn settings(port: u16, (master, password): (u16, Option<&str>), directory: &Path) -> String {
    let directory = directory.display();
    let mut text = format!(
        "port {port}\nbind 127.0.0.1\ndir {directory}\nsentinel monitor {MASTER} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\nsentinel failover-timeout {MASTER} 5000\n\
         sentinel parallel-syncs {MASTER} 1\n"
    );
    if let Some(password) = password {
        text.push_str(&format!("requirepass {password}\nsentinel sentinel-pass {password}\n"));
    }
    text
}

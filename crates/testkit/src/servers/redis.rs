//! A Redis (or Valkey) server of a test's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::warden::{Charge, Warden};
use super::{Error, on_some_port, port, resp, wait_for};

/// How a server is to be started.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The program: what `TIDEMILL_TEST_REDIS` names, or `redis-server`.
    pub binary: String,
    /// Whether it keeps an append-only file, and so its data over a restart.
    pub appendonly: bool,
    /// How much memory it may use, such as `4mb`. It evicts nothing.
    pub maxmemory: Option<String>,
    /// Whether it is a node of a cluster.
    pub cluster: bool,
    /// How it speaks TLS, on a port beside the plain one. A Cluster's own traffic is TLS as well then.
    pub tls: Option<RedisTls>,
    /// Further arguments, such as `["--databases", "2"]`.
    pub args: Vec<String>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            binary: std::env::var("TIDEMILL_TEST_REDIS").unwrap_or_else(|_| "redis-server".to_owned()),
            appendonly: false,
            maxmemory: None,
            cluster: false,
            tls: None,
            args: Vec::new(),
        }
    }
}

/// The certificates of a server that speaks TLS.
#[derive(Debug, Clone)]
pub struct RedisTls {
    /// The certificate of the authority that signed those of clients.
    pub authority: PathBuf,
    /// Its own certificate and the key.
    pub pair: (PathBuf, PathBuf),
    /// Whether clients must have a certificate.
    pub asks_clients: bool,
}

/// A running server. Dropping it ends it and removes its directory.
pub struct Redis {
    warden: Warden,
    port: u16,
    tls_port: Option<u16>,
}

impl Redis {
    /// Starts a server that keeps nothing.
    pub fn start() -> Result<Self, Error> {
        Self::with(RedisOptions::default())
    }

    /// Starts a server as `options` say.
    pub fn with(options: RedisOptions) -> Result<Self, Error> {
        check(&options.binary)?;
        on_some_port(|port| Self::on(port, &options))
    }

    fn on(port: u16, options: &RedisOptions) -> Result<Self, Error> {
        let directory = tempfile::Builder::new().prefix("tidemill-redis-").tempdir()?.keep();
        let mut command = vec![options.binary.clone()];
        command.extend(settings(port, &directory.display().to_string(), options));
        let tls_port = options.tls.as_ref().map(|_| port::free()).transpose()?;
        if let (Some(tls), Some(port)) = (&options.tls, tls_port) {
            command.extend(tls_settings(port, tls, options.cluster));
        }
        command.extend(options.args.iter().cloned());
        // Nothing it could still write is worth more than a quick end.
        let warden = Warden::new(Charge { directory, command, farewell: "KILL" })?;
        let redis = Self { warden, port, tls_port };
        redis.run()?;
        Ok(redis)
    }

    fn run(&self) -> Result<(), Error> {
        let pid = self.warden.start()?.to_string();
        wait_for("the start of redis-server", || {
            if !self.warden.is_alive() {
                return Err(Error::new(format!("redis-server ended: {}", self.warden.last_words())));
            }
            // On a port that was taken from us, another server answers.
            let info = resp::ask(self.port, &["INFO"]).unwrap_or_default();
            let is_ours = resp::field(&info, "process_id") == Some(&pid);
            Ok((is_ours && resp::field(&info, "loading") == Some("0")).then_some(()))
        })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its port for TLS, if it has one.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// Sends it one command on a connection of its own and returns the answer's text.
    pub fn command(&self, command: &[&str]) -> Result<String, Error> {
        resp::ask(self.port, command)
    }

    /// The directory that holds its data and its log.
    pub fn directory(&self) -> &Path {
        self.warden.directory()
    }

    /// Stops it where it is: connections stay open and nothing answers.
    pub fn pause(&self) -> Result<(), Error> {
        self.warden.signal(Signal::STOP)
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) -> Result<(), Error> {
        self.warden.signal(Signal::CONT)
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(&self) -> Result<(), Error> {
        self.warden.kill()
    }

    /// Starts it again on the same port and data, after killing it if it still runs.
    pub fn restart(&self) -> Result<(), Error> {
        self.warden.kill()?;
        self.run()
    }
}

fn check(binary: &str) -> Result<(), Error> {
    let found = Command::new(binary).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::missing(binary, binary)),
    }
}

fn tls_settings(port: u16, tls: &RedisTls, cluster: bool) -> Vec<String> {
    let shown = |path: &Path| path.display().to_string();
    let yes = |on: bool| if on { "yes" } else { "no" }.to_owned();
    let settings = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", shown(&tls.pair.0)),
        ("--tls-key-file", shown(&tls.pair.1)),
        ("--tls-ca-cert-file", shown(&tls.authority)),
        ("--tls-auth-clients", yes(tls.asks_clients)),
        ("--tls-cluster", yes(cluster)),
    ];
    settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

fn settings(port: u16, directory: &str, options: &RedisOptions) -> Vec<String> {
    let port = port.to_string();
    let yes = |on: bool| if on { "yes" } else { "no" };
    let mut settings = vec![
        ("--port", port.as_str()),
        ("--bind", "127.0.0.1"),
        ("--dir", directory),
        ("--save", ""),
        ("--appendonly", yes(options.appendonly)),
        ("--cluster-enabled", yes(options.cluster)),
    ];
    settings.extend(options.maxmemory.as_deref().map(|limit| ("--maxmemory", limit)));
    settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]).collect()
}

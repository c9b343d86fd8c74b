//! A Redis (or Valkey) server for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::process::{ServerProcess, ServerSpec};
use super::{ServerError, port, resp, start_on_free_port, wait_for};

/// The options of a server.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The program: what `TIDEMILL_TEST_REDIS` names, or `redis-server`.
    pub binary: String,
    /// Whether it has an append-only file, and so keeps its data over a restart.
    pub appendonly: bool,
    /// Its memory limit, such as `4mb`. It evicts nothing.
    pub maxmemory: Option<String>,
    /// Whether it is a node of a cluster.
    pub cluster: bool,
    /// TLS on a port next to the plain one. A Cluster's own traffic then uses TLS as well.
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

/// The certificates of a server with TLS.
#[derive(Debug, Clone)]
pub struct RedisTls {
    /// The certificate of the authority that signed those of clients.
    pub authority: PathBuf,
    /// The server's certificate and key.
    pub pair: (PathBuf, PathBuf),
    /// Whether clients must have a certificate.
    pub requires_client_certificate: bool,
}

/// A running server. Dropping it stops it and removes its directory.
pub struct Redis {
    process: ServerProcess,
    port: u16,
    tls_port: Option<u16>,
}

impl Redis {
    /// Starts a server without persistence.
    pub fn start() -> Result<Self, ServerError> {
        Self::with(RedisOptions::default())
    }

    /// Starts a server with these options.
    pub fn with(options: RedisOptions) -> Result<Self, ServerError> {
        check(&options.binary)?;
        start_on_free_port(|port| Self::on(port, &options))
    }

    fn on(port: u16, options: &RedisOptions) -> Result<Self, ServerError> {
        let directory = tempfile::Builder::new().prefix("tidemill-redis-").tempdir()?.keep();
        let mut command = vec![options.binary.clone()];
        command.extend(settings(port, &directory.display().to_string(), options));
        let tls_port = options.tls.as_ref().map(|_| port::free()).transpose()?;
        if let (Some(tls), Some(port)) = (&options.tls, tls_port) {
            command.extend(tls_settings(port, tls, options.cluster));
        }
        command.extend(options.args.iter().cloned());
        // It has no data worth a slow shutdown.
        let process = ServerProcess::new(ServerSpec { directory, command, stop_signal: "KILL" })?;
        let redis = Self { process, port, tls_port };
        redis.run()?;
        Ok(redis)
    }

    fn run(&self) -> Result<(), ServerError> {
        let pid = self.process.start()?.to_string();
        wait_for("the start of redis-server", || {
            if !self.process.is_alive() {
                return Err(ServerError::new(format!("redis-server ended: {}", self.process.log_tail())));
            }
            // If another process has taken the port, another server answers.
            let info = resp::send(self.port, &["INFO"]).unwrap_or_default();
            let is_ours = resp::field(&info, "process_id") == Some(&pid);
            Ok((is_ours && resp::field(&info, "loading") == Some("0")).then_some(()))
        })
    }

    /// Its URL.
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

    /// Sends one command on a separate connection and returns the text of the answer.
    pub fn command(&self, command: &[&str]) -> Result<String, ServerError> {
        resp::send(self.port, command)
    }

    /// The directory with its data and its log.
    pub fn directory(&self) -> &Path {
        self.process.directory()
    }

    /// Stops it with SIGSTOP: connections stay open without answers.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.process.signal(Signal::STOP)
    }

    /// Continues it after [`pause`](Self::pause).
    pub fn resume(&self) -> Result<(), ServerError> {
        self.process.signal(Signal::CONT)
    }

    /// Kills it with SIGKILL and waits until it has ended.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.process.kill()
    }

    /// Starts it again on the same port and data, after killing it if it still runs.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.process.kill()?;
        self.run()
    }
}

fn check(binary: &str) -> Result<(), ServerError> {
    let found = Command::new(binary).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => Err(ServerError::missing(binary, binary)),
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
        ("--tls-auth-clients", yes(tls.requires_client_certificate)),
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
    if options.appendonly {
        // With the default, the server may answer up to two seconds before it writes.
        settings.push(("--appendfsync", "always"));
    }
    settings.extend(options.maxmemory.as_deref().map(|limit| ("--maxmemory", limit)));
    settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]).collect()
}

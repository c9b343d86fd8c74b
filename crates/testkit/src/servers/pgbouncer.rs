//! A PgBouncer in front of a PostgreSQL server.

use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::process::Command;

use super::postgres::as_unprivileged;
use super::process::{ServerProcess, ServerSpec};
use super::{Postgres, ServerError, start_on_free_port, wait_for};

/// How long a client keeps a connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// As long as it is connected.
    Session,
    /// Until its transaction ends.
    Transaction,
}

/// The options of a pooler.
#[derive(Debug, Clone)]
pub struct PgbouncerOptions {
    /// How long a client keeps a connection to the server.
    pub mode: PoolMode,
    /// The number of connections to the server for each database.
    pub size: usize,
    /// Further settings, such as `["max_prepared_statements = 100"]`.
    pub settings: Vec<String>,
}

/// A running pooler. Dropping it stops it and removes its directory.
pub struct Pgbouncer {
    process: ServerProcess,
    port: u16,
}

impl Pgbouncer {
    /// Starts a pooler in front of a server.
    pub fn start(server: &Postgres, options: &PgbouncerOptions) -> Result<Self, ServerError> {
        start_on_free_port(|port| Self::on(port, server, options))
    }

    /// Whether the installed version supports prepared statements: versions from 1.21 do.
    pub fn knows_prepared_statements() -> Result<bool, ServerError> {
        let output = Command::new(program()).arg("--version").output().map_err(|_| missing())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().nth(1).unwrap_or_default();
        let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
        Ok((parts.next(), parts.next()) >= (Some(1), Some(21)))
    }

    fn on(port: u16, server: &Postgres, options: &PgbouncerOptions) -> Result<Self, ServerError> {
        let directory = tempfile::Builder::new().prefix("tidemill-pgbouncer-").tempdir()?.keep();
        let file = directory.join("pgbouncer.ini");
        fs::write(&file, settings(port, server, options))?;
        if rustix::process::geteuid().is_root() {
            Command::new("chown").args(["-R", "postgres"]).arg(&directory).status()?;
        }
        let mut command = as_unprivileged(program().as_ref());
        command.push(file.display().to_string());
        let process = ServerProcess::new(ServerSpec { directory, command, stop_signal: "KILL" })?;
        process.start()?;
        let pooler = Self { process, port };
        wait_for("the start of pgbouncer", || {
            pooler.check_alive()?;
            Ok(TcpStream::connect(("127.0.0.1", port)).ok().map(drop))
        })?;
        Ok(pooler)
    }

    /// Fails with the end of its log if it has ended.
    pub fn check_alive(&self) -> Result<(), ServerError> {
        if self.process.is_alive() {
            return Ok(());
        }
        Err(ServerError::new(format!("pgbouncer ended: {}", self.process.log_tail())))
    }

    /// The URL of a database through the pooler, for its URL on the server.
    pub fn url(&self, direct: &str) -> String {
        let database = direct.rsplit('/').next().unwrap_or_default();
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

/// The program; `TIDEMILL_PGBOUNCER` overrides the system's.
fn program() -> String {
    std::env::var("TIDEMILL_PGBOUNCER").unwrap_or_else(|_| "pgbouncer".to_owned())
}

fn missing() -> ServerError {
    ServerError::missing("pgbouncer", "pgbouncer")
}

fn settings(port: u16, server: &Postgres, options: &PgbouncerOptions) -> String {
    let mode = match options.mode {
        PoolMode::Session => "session",
        PoolMode::Transaction => "transaction",
    };
    let mut text = format!(
        "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = {}\n\
         max_client_conn = 500\nadmin_users = postgres\n",
        server.port(),
        options.size
    );
    for setting in &options.settings {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{setting}");
    }
    text
}

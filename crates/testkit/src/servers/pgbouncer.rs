//! A PgBouncer in front of a PostgreSQL server of a test's own.

use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::process::Command;

use super::postgres::as_unprivileged;
use super::warden::{Charge, Warden};
use super::{Error, Postgres, on_some_port, wait_for};

/// For how long a client has a connection of the server to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// As long as it is connected.
    Session,
    /// Until its transaction ends.
    Transaction,
}

/// How a pooler is to be started.
#[derive(Debug, Clone)]
pub struct PgbouncerOptions {
    /// For how long a client has a connection of the server to itself.
    pub mode: PoolMode,
    /// How many connections to the server there are for each database.
    pub size: usize,
    /// Further settings, such as `["max_prepared_statements = 100"]`.
    pub settings: Vec<String>,
}

/// A running pooler. Dropping it ends it and removes its directory.
pub struct Pgbouncer {
    warden: Warden,
    port: u16,
}

impl Pgbouncer {
    /// Starts a pooler in front of a server.
    pub fn start(server: &Postgres, options: &PgbouncerOptions) -> Result<Self, Error> {
        on_some_port(|port| Self::on(port, server, options))
    }

    /// Whether the installed version passes on prepared statements: those from 1.21 do.
    pub fn knows_prepared_statements() -> Result<bool, Error> {
        let output = Command::new(program()).arg("--version").output().map_err(|_| missing())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().nth(1).unwrap_or_default();
        let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
        Ok((parts.next(), parts.next()) >= (Some(1), Some(21)))
    }

    fn on(port: u16, server: &Postgres, options: &PgbouncerOptions) -> Result<Self, Error> {
        let directory = tempfile::Builder::new().prefix("tidemill-pgbouncer-").tempdir()?.keep();
        let file = directory.join("pgbouncer.ini");
        fs::write(&file, settings(port, server, options))?;
        if rustix::process::geteuid().is_root() {
            Command::new("chown").args(["-R", "postgres"]).arg(&directory).status()?;
        }
        let mut command = as_unprivileged(program().as_ref());
        command.push(file.display().to_string());
        let warden = Warden::new(Charge { directory, command, farewell: "KILL" })?;
        warden.start()?;
        let pooler = Self { warden, port };
        wait_for("the start of pgbouncer", || {
            if !pooler.warden.is_alive() {
                return Err(Error::new(format!("pgbouncer ended: {}", pooler.warden.last_words())));
            }
            Ok(TcpStream::connect(("127.0.0.1", port)).ok().map(drop))
        })?;
        Ok(pooler)
    }

    /// The same database as by a URL of the server's, through the pooler.
    pub fn url(&self, direct: &str) -> String {
        let database = direct.rsplit('/').next().unwrap_or_default();
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

/// `TIDEMILL_PGBOUNCER` names another one than the system's.
fn program() -> String {
    std::env::var("TIDEMILL_PGBOUNCER").unwrap_or_else(|_| "pgbouncer".to_owned())
}

fn missing() -> Error {
    Error::missing("pgbouncer", "pgbouncer")
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
        // Writing to a text does not fail.
        let _ = writeln!(text, "{setting}");
    }
    text
}

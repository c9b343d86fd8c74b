//! A PostgreSQL server for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::process::{ServerProcess, ServerSpec};
use super::{ServerError, start_on_free_port, wait_for};

/// The options of a server.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Whether a commit waits for the disk. A test that kills the process does not need it, a
    /// benchmark does.
    pub fsync: bool,
    /// Further settings, such as `["max_connections=20"]`.
    pub settings: Vec<String>,
}

/// A running server. Dropping it stops it and removes its directory.
pub struct Postgres {
    process: ServerProcess,
    port: u16,
    programs: Programs,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts a server that does not wait for the disk.
    pub fn start() -> Result<Self, ServerError> {
        Self::with(PostgresOptions::default())
    }

    /// Starts a server with these options.
    pub fn with(options: PostgresOptions) -> Result<Self, ServerError> {
        let programs = Programs::find()?;
        start_on_free_port(|port| Self::on(port, &programs, &options))
    }

    fn on(port: u16, programs: &Programs, options: &PostgresOptions) -> Result<Self, ServerError> {
        let directory = tempfile::Builder::new().prefix("tidemill-postgres-").tempdir()?;
        let data = directory.path().join("data").display().to_string();
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").arg("postgres").arg(directory.path()))?;
        }
        let initdb = as_unprivileged(&programs.server.join("initdb"));
        run(Command::new(&initdb[0]).args(&initdb[1..]).args([
            "--no-sync",
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "-D",
            &data,
        ]))?;
        let mut command = as_unprivileged(&programs.server.join("postgres"));
        command.extend(["-D".to_owned(), data]);
        command.extend(settings(port, options).flat_map(|setting| ["-c".to_owned(), setting]));
        // An immediate shutdown: like a crash, but its children and its shared memory are removed.
        let process =
            ServerProcess::new(ServerSpec { directory: directory.keep(), command, stop_signal: "QUIT" })?;
        let server = Self { process, port, programs: programs.clone(), databases: AtomicU32::new(0) };
        server.run()?;
        Ok(server)
    }

    fn run(&self) -> Result<(), ServerError> {
        let mut pid = self.process.start()?;
        let lock = self.process.directory().join("data/postmaster.pid");
        let mut restarts = 0;
        wait_for("the start of postgres", || {
            if !self.process.is_alive() {
                // The backends of a killed server may hold its shared memory for a short time.
                restarts += 1;
                if restarts > 20 || !self.process.log_tail().contains("shared memory") {
                    return Err(ServerError::new(format!("postgres ended: {}", self.process.log_tail())));
                }
                self.process.kill()?;
                std::thread::sleep(super::POLL_INTERVAL * 10);
                pid = self.process.start()?;
            }
            let lock = fs::read_to_string(&lock).unwrap_or_default();
            Ok((is_ready(&lock, pid)).then_some(()))
        })
    }

    /// Creates an empty database and returns its URL.
    pub fn database(&self) -> Result<String, ServerError> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let port = self.port.to_string();
        // From template0, which accepts no connections: with any other template, concurrent calls
        // fail.
        run(Command::new(&self.programs.createdb).args([
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "postgres",
            "-T",
            "template0",
            &name,
        ]))?;
        Ok(self.url_of(&name))
    }

    /// The URL of the server's own database, for administration.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory with its data and its log.
    pub fn directory(&self) -> &Path {
        self.process.directory()
    }

    /// Stops it and its backends with SIGSTOP: connections stay open without answers.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.process.signal(Signal::STOP)
    }

    /// Continues it after [`pause`](Self::pause).
    pub fn resume(&self) -> Result<(), ServerError> {
        self.process.signal(Signal::CONT)
    }

    /// Kills it and its backends with SIGKILL and waits until they have ended.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.process.kill()
    }

    /// Starts it again on the same port and data, after killing it if it still runs.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.process.kill()?;
        self.run()
    }
}

/// The first line of the lock file is the server's pid, the eighth its state.
fn is_ready(lock: &str, pid: u32) -> bool {
    let mut lines = lock.lines();
    lines.next() == Some(&pid.to_string()) && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

fn settings(port: u16, options: &PostgresOptions) -> impl Iterator<Item = String> {
    let mut own = vec![
        format!("port={port}"),
        "listen_addresses=127.0.0.1".to_owned(),
        "unix_socket_directories=".to_owned(),
        // All tests of a process share one server, each with a pool of its own.
        "max_connections=300".to_owned(),
    ];
    if !options.fsync {
        own.extend(["fsync=off".to_owned(), "full_page_writes=off".to_owned()]);
    }
    own.into_iter().chain(options.settings.clone())
}

/// The server refuses to run as root, so root switches to the user of its package.
pub(super) fn as_unprivileged(program: &Path) -> Vec<String> {
    let program = program.display().to_string();
    if !rustix::process::geteuid().is_root() {
        return vec![program];
    }
    let drop = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"];
    drop.into_iter().map(str::to_owned).chain([program]).collect()
}

fn run(command: &mut Command) -> Result<(), ServerError> {
    // The server's user may have no access to the working directory of the tests.
    let output = command.current_dir("/").output();
    let output = output.map_err(|error| ServerError::new(format!("cannot run {command:?}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(ServerError::new(format!("{command:?} failed: {}", complaint.trim())))
}

/// The installed programs.
#[derive(Clone)]
struct Programs {
    /// The directory of `postgres` and `initdb`.
    server: PathBuf,
    createdb: PathBuf,
}

impl Programs {
    /// The server is in the directory that `TIDEMILL_TEST_POSTGRES` names, or the newest of the
    /// system. Debian keeps its programs out of PATH, one directory per version. `createdb` may be
    /// of another version.
    fn find() -> Result<Self, ServerError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<_> = packaged.map(|version| version.path().join("bin")).collect();
        versions.sort_by_key(|bin| std::cmp::Reverse(version_of(bin)));
        let wanted = std::env::var_os("TIDEMILL_TEST_POSTGRES").map(PathBuf::from);
        let places: Vec<_> = std::env::split_paths(&path).chain(versions).collect();
        let with = |program: &str| places.iter().find(|bin| bin.join(program).is_file()).cloned();
        let server = wanted
            .or_else(|| with("postgres"))
            .ok_or_else(|| ServerError::missing("postgres", "postgresql"))?;
        let createdb =
            with("createdb").ok_or_else(|| ServerError::missing("createdb", "postgresql"))?.join("createdb");
        Ok(Self { server, createdb })
    }
}

/// 15 for `…/15/bin`.
fn version_of(bin: &Path) -> u32 {
    let version = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

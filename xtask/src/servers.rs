//! The servers that the tests start themselves: finds out which are missing, and installs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Where the clients of browsers are, in Node.
const CLIENTS: &str = "crates/fleet/tests/node";

/// Installs what is missing: servers and browsers, and the clients that connect to them.
pub(crate) fn install() -> Result<()> {
    install_packages(&missing())?;
    install_clients()
}

/// Installs what [`versions`](crate::versions) needs before it can install other versions by itself.
pub(crate) fn install_for_versions() -> Result<()> {
    let pip = shell::output_of(Command::new("python3").args(["-m", "pip", "--version"]));
    install_packages(&missing_of(&[
        ("redis-server", is_there("redis-server")),
        ("postgresql", postgres().is_some()),
        ("python3-pip", pip.is_ok()),
        ("npm", is_there("npm")),
    ]))
}

/// What is locked is installed, unless it is there already. Playwright and Puppeteer come without browsers: the system's
/// are used.
fn install_clients() -> Result<()> {
    let directory = shell::root().join(CLIENTS);
    let modified = |file: &str| directory.join(file).metadata().and_then(|about| about.modified()).ok();
    // npm writes this file at the end of an installation.
    let installed = modified("node_modules/.package-lock.json");
    if installed.is_some() && installed >= modified("package-lock.json") {
        return Ok(());
    }
    let mut npm = shell::command("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    shell::run(npm.current_dir(directory)).context("cannot install the clients of browsers")
}

/// Only on Debian and its kin; elsewhere it says what is wanted.
fn install_packages(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !is_there("apt-get") {
        bail!("the tests start servers of their own and need {packages}: install them, or use `test --fast`");
    }
    println!("The tests start servers of their own. Installing {packages}.");
    shell::run(&mut apt_get(&["update", "-qq"]))?;
    let mut install = vec!["install", "-qq", "-y", "--no-install-recommends"];
    install.extend(missing);
    shell::run(&mut apt_get(&install)).with_context(|| format!("cannot install {packages}"))
}

fn missing() -> Vec<&'static str> {
    missing_of(&[
        ("redis-server", is_there("redis-server")),
        ("redis-sentinel", is_there("redis-sentinel")),
        ("openssl", is_there("openssl")),
        ("postgresql", postgres().is_some()),
        ("pgbouncer", is_there("pgbouncer")),
        ("python3-redis", has_python_client()),
        ("chromium", is_there("chromium")),
        ("chromium-headless-shell", is_there("chromium-headless-shell")),
        ("firefox-esr", is_there("firefox-esr")),
        ("nodejs", is_there("node")),
        // Who has a Node of another make has its npm as well.
        ("npm", is_there("npm")),
    ])
}

/// The packages that are not there.
fn missing_of(wanted: &[(&'static str, bool)]) -> Vec<&'static str> {
    wanted.iter().filter(|(_, is_there)| !is_there).map(|(package, _)| *package).collect()
}

/// The tests play the part of programs in other languages, too. The package is for the system's Python, which
/// need not be the first in PATH.
fn has_python_client() -> bool {
    let knows = |python: &&str| {
        let mut ask = Command::new(python);
        ask.args(["-c", "import redis"]).stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success())
    };
    ["python3", "/usr/bin/python3"].iter().any(knows)
}

/// `RUNLEVEL=1` keeps the packages from starting services of their own: the tests do not use them, and nobody
/// would stop them.
fn apt_get(args: &[&str]) -> Command {
    let settings = ["env", "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let sudo: &[&str] = if is_root() { &[] } else { &["sudo"] };
    let words: Vec<_> = sudo.iter().chain(&settings).chain(args).copied().collect();
    shell::command(words[0], &words[1..])
}

fn is_root() -> bool {
    let id = shell::output_of(Command::new("id").arg("-u"));
    id.is_ok_and(|id| id.trim() == "0")
}

pub(crate) fn is_there(program: &str) -> bool {
    let mut look = Command::new("sh");
    look.args(["-c", "command -v \"$0\"", program]).stdout(Stdio::null());
    look.status().is_ok_and(|status| status.success())
}

/// Where the programs of the system's newest PostgreSQL are. Debian keeps them out of PATH, one directory per version.
pub(crate) fn postgres() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let packaged = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    let mut versions: Vec<_> = packaged.map(|version| version.path()).collect();
    versions.sort_by_key(|path| {
        std::cmp::Reverse(path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()))
    });
    let mut places = std::env::split_paths(&path).chain(versions.iter().map(|version| version.join("bin")));
    places.find(|bin| bin.join("postgres").is_file())
}

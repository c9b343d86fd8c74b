//! Installation of the servers that the tests start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Directory of the Node clients for browsers.
const NODE_CLIENTS_DIR: &str = "crates/fleet/tests/node";

/// Installs missing servers, browsers and clients.
pub(crate) fn install() -> Result<()> {
    install_packages(&missing())?;
    install_clients()
}

/// Installs what [`versions`](crate::versions) needs to install other versions.
pub(crate) fn install_for_versions() -> Result<()> {
    let pip = shell::read_output(Command::new("python3").args(["-m", "pip", "--version"]));
    install_packages(&select_missing(&[
        ("redis-server", is_installed("redis-server")),
        ("postgresql", postgres().is_some()),
        ("python3-pip", pip.is_ok()),
        ("npm", is_installed("npm")),
    ]))
}

/// Installs the locked packages, unless they are installed. Playwright and Puppeteer come without
/// browsers: the tests use those of the system.
fn install_clients() -> Result<()> {
    let directory = shell::root().join(NODE_CLIENTS_DIR);
    let modified = |file: &str| directory.join(file).metadata().and_then(|about| about.modified()).ok();
    // npm writes this file at the end of an installation.
    let installed = modified("node_modules/.package-lock.json");
    if installed.is_some() && installed >= modified("package-lock.json") {
        return Ok(());
    }
    let mut npm = shell::command("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    shell::run(npm.current_dir(directory)).context("cannot install the clients of browsers")
}

/// Installs packages with apt-get, or fails with the list of packages.
fn install_packages(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !is_installed("apt-get") {
        bail!("the tests start their own servers and need {packages}: install them, or use `test --fast`");
    }
    println!("The tests start their own servers. Installing {packages}.");
    shell::run(&mut apt_get(&["update", "-qq"]))?;
    let mut install = vec!["install", "-qq", "-y", "--no-install-recommends"];
    install.extend(missing);
    shell::run(&mut apt_get(&install)).with_context(|| format!("cannot install {packages}"))
}

fn missing() -> Vec<&'static str> {
    select_missing(&[
        ("redis-server", is_installed("redis-server")),
        ("redis-sentinel", is_installed("redis-sentinel")),
        ("openssl", is_installed("openssl")),
        ("postgresql", postgres().is_some()),
        ("pgbouncer", is_installed("pgbouncer")),
        ("python3-redis", has_python_client()),
        ("chromium", is_installed("chromium")),
        ("chromium-headless-shell", is_installed("chromium-headless-shell")),
        ("firefox-esr", is_installed("firefox-esr")),
        ("nodejs", is_installed("node")),
        // A Node from another source comes with its npm.
        ("npm", is_installed("npm")),
    ])
}

/// The packages that are not installed.
fn select_missing(wanted: &[(&'static str, bool)]) -> Vec<&'static str> {
    wanted.iter().filter(|(_, installed)| !installed).map(|(package, _)| *package).collect()
}

/// Whether Python has the Redis client. The tests run programs in other languages, too. The package
/// is for the system's Python, which may not be the first in PATH.
fn has_python_client() -> bool {
    let knows = |python: &&str| {
        let mut ask = Command::new(python);
        ask.args(["-c", "import redis"]).stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success())
    };
    ["python3", "/usr/bin/python3"].iter().any(knows)
}

/// `RUNLEVEL=1` prevents the packages from starting services, which the tests do not use.
fn apt_get(args: &[&str]) -> Command {
    let settings = ["env", "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let sudo: &[&str] = if is_root() { &[] } else { &["sudo"] };
    let words: Vec<_> = sudo.iter().chain(&settings).chain(args).copied().collect();
    shell::command(words[0], &words[1..])
}

fn is_root() -> bool {
    let id = shell::read_output(Command::new("id").arg("-u"));
    id.is_ok_and(|id| id.trim() == "0")
}

pub(crate) fn is_installed(program: &str) -> bool {
    let mut look = Command::new("sh");
    look.args(["-c", "command -v \"$0\"", program]).stdout(Stdio::null());
    look.status().is_ok_and(|status| status.success())
}

/// The directory of the system's newest PostgreSQL. Debian keeps it out of PATH, one directory per
/// version.
pub(crate) fn postgres() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let packaged = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    let mut versions: Vec<_> = packaged.map(|version| version.path()).collect();
    versions.sort_by_key(|path| {
        std::cmp::Reverse(path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()))
    });
    let mut directories =
        std::env::split_paths(&path).chain(versions.iter().map(|version| version.join("bin")));
    directories.find(|bin| bin.join("postgres").is_file())
}

//! One browser, started for the measurement and ended with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Where Debian has the real programs; what is in the path are shell scripts around them.
const USUAL: [&str; 2] = ["/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium"];

/// A browser that listens.
pub(crate) struct Browser {
    _process: Child,
    _profile: TempDir,
    /// Where.
    pub(crate) endpoint: String,
}

impl Browser {
    pub(crate) async fn start(binary: Option<&Path>) -> Result<Self> {
        let usual = || USUAL.iter().map(PathBuf::from).find(|path| path.exists());
        let binary =
            binary.map(Path::to_owned).or_else(usual).context("no Chromium: say where with --binary")?;
        let profile = TempDir::new()?;
        let mut process = Command::new(&binary)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut lines = BufReader::new(process.stderr.take().context("no standard error")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(endpoint) = line.strip_prefix("DevTools listening on ") {
                let endpoint = endpoint.to_owned();
                // It blocks when nobody reads what it says.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self { _process: process, _profile: profile, endpoint });
            }
        }
        bail!("{} ended before it listened", binary.display())
    }
}

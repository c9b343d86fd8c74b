//! A browser process without an agent, which ends with its owner.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Debian's paths of the real programs; those in PATH are shell scripts around them.
const USUAL: [&str; 2] = ["/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium"];

/// A running Chromium.
#[derive(Debug)]
pub struct Browser {
    _process: Child,
    _profile: TempDir,
    /// The URL of its WebSocket.
    pub endpoint: String,
}

impl Browser {
    /// Starts this binary, or Debian's.
    pub async fn start(binary: Option<&Path>) -> Result<Self> {
        let usual = || USUAL.iter().map(PathBuf::from).find(|path| path.exists());
        let binary = binary.map(Path::to_owned).or_else(usual);
        let binary = binary.ok_or_else(|| Error::other("no Chromium where Debian has it"))?;
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
            .map_err(|error| {
                Error::new(error.kind(), format!("cannot start {}: {error}", binary.display()))
            })?;
        let mut lines =
            BufReader::new(process.stderr.take().ok_or_else(|| Error::other("no standard error"))?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(endpoint) = line.strip_prefix("DevTools listening on ") {
                let endpoint = endpoint.to_owned();
                // The browser blocks when its output is not read.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self { _process: process, _profile: profile, endpoint });
            }
        }
        Err(Error::other(format!("{} ended before it listened", binary.display())))
    }
}

//! A real browser, started and ended by the test.

use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::world::patiently;

/// Where distributions put the real binary: what is in the path may be a script that leaves the
/// browser behind.
const PLACES: [&str; 3] = [
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib/chromium/headless_shell",
    "/usr/lib/chromium-browser/headless_shell",
];

const FLAGS: [&str; 8] = [
    "--remote-debugging-port=0",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "about:blank",
];

/// A running browser. Dropped, it is killed; its children go with it.
pub(crate) struct Chromium {
    pub(crate) endpoint: String,
    child: Child,
    _profile: TempDir,
}

impl Chromium {
    pub(crate) async fn start() -> Self {
        let binary = PLACES.iter().find(|place| std::path::Path::new(place).exists());
        let binary = binary.expect("install chromium-headless-shell");
        let profile = TempDir::new().unwrap();
        let mut command = Command::new(binary);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.path().display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let endpoint = loop {
            let line = patiently(lines.next_line()).await.unwrap().expect("the browser ended");
            if let Some(endpoint) = line.strip_prefix("DevTools listening on ") {
                break endpoint.trim().to_owned();
            }
        };
        // Whatever else it says is read away, so that it never waits for us.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { endpoint, child, _profile: profile }
    }

    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

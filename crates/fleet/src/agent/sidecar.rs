//! Playwright's server: a Node process that speaks to a browser for clients of one version of Playwright.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::{Pid, geteuid};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::environment;
use super::health::Probe;
use super::place::Place;
use super::playwright::Version;
use super::process::{Launch, Process};
use super::recipe::{NotStarted, Recipe, Started, died};
use super::words::Lines;

const SCRIPT: &str = include_str!("sidecar.cjs");

/// What the browser is told beyond what Playwright tells it.
const ARGS: [&str; 5] =
    ["--disable-gpu", "--disable-quic", "--disable-sync", "--disable-breakpad", "--disable-dev-shm-usage"];

/// How to run the server of one version of Playwright.
#[derive(Debug, Clone)]
pub(super) struct Sidecar {
    pub(super) node: PathBuf,
    /// Where that version of `playwright-core` is.
    pub(super) package: PathBuf,
    pub(super) version: Version,
}

/// What the script wants to know.
#[derive(Serialize)]
struct Settings<'a> {
    package: &'a PathBuf,
    executable: &'a PathBuf,
    args: Vec<&'a str>,
    sandbox: bool,
    /// Nobody can guess it, so nobody who was not given it connects.
    path: String,
}

/// What the script says when its server is ready.
#[derive(Deserialize)]
struct Ready {
    endpoint: String,
    pid: i32,
    version: String,
}

impl Sidecar {
    pub(super) async fn start(
        &self,
        recipe: &Recipe,
        place: &Arc<Place>,
        number: u64,
    ) -> Result<Started, NotStarted> {
        let launch = self.launch(&place.room(number)).await?;
        let (mut process, mut lines) = Process::start(place, number, &launch).await?;
        let orders = process.orders();
        let mut orders = orders.ok_or_else(|| NotStarted("the sidecar does not listen".to_owned()))?;
        orders.write_all(self.settings(recipe)?.as_bytes()).await?;
        let ready = match ready(&mut lines).await {
            Some(ready) => ready,
            None => return Err(died(process).await),
        };
        // Playwright gives its browser a group of its own.
        if let Some(browser) = Pid::from_raw(ready.pid) {
            process.adopt(browser)?;
        }
        let Ready { endpoint, version, .. } = ready;
        Ok(Started { process, endpoint, version, probe: Probe::Sidecar { orders, lines } })
    }

    /// The script is read from a file and not from standard input, which carries orders.
    async fn launch(&self, directory: &std::path::Path) -> Result<Launch, NotStarted> {
        let script = directory.join("sidecar.cjs");
        tokio::fs::write(&script, SCRIPT).await?;
        let variables = environment::of_browser(directory);
        Ok(Launch { program: self.node.clone().into(), args: vec![script.into()], variables, listens: true })
    }

    fn settings(&self, recipe: &Recipe) -> Result<String, NotStarted> {
        let settings = Settings {
            package: &self.package,
            executable: &recipe.binary,
            args: ARGS.into_iter().chain(recipe.args.iter().map(String::as_str)).collect(),
            sandbox: !geteuid().is_root(),
            path: format!("/{}", uuid::Uuid::new_v4().simple()),
        };
        let line = serde_json::to_string(&settings).map_err(|error| NotStarted(error.to_string()))?;
        Ok(format!("{line}\n"))
    }
}

async fn ready(lines: &mut Lines) -> Option<Ready> {
    loop {
        // Node and Playwright may print warnings before.
        if let Ok(ready) = serde_json::from_str(&lines.recv().await?) {
            return Some(ready);
        }
    }
}

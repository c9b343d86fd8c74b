//! The sidecar: a Node process that runs Playwright's server for one version of Playwright.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::{Pid, geteuid};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::environment;
use super::health::Probe;
use super::launch::{LaunchSpec, StartError, StartedBrowser, exit_error};
use super::output_log::OutputLines;
use super::playwright::PlaywrightVersion;
use super::process::{ProcessGroup, ProcessSpec};
use super::temp_dirs::TempDirs;

const SCRIPT: &str = include_str!("sidecar.cjs");

/// Flags for the browser in addition to Playwright's own.
const EXTRA_FLAGS: [&str; 5] =
    ["--disable-gpu", "--disable-quic", "--disable-sync", "--disable-breakpad", "--disable-dev-shm-usage"];

/// How to run the server of one Playwright version.
#[derive(Debug, Clone)]
pub(super) struct Sidecar {
    pub(super) node: PathBuf,
    /// The directory of that version of `playwright-core`.
    pub(super) package: PathBuf,
    pub(super) version: PlaywrightVersion,
}

/// The script's input.
#[derive(Serialize)]
struct SidecarSettings<'a> {
    package: &'a PathBuf,
    executable: &'a PathBuf,
    args: Vec<&'a str>,
    sandbox: bool,
    /// Unguessable, so only clients that were given it can connect.
    path: String,
}

/// The script's output when its server is ready.
#[derive(Deserialize)]
struct SidecarReady {
    endpoint: String,
    pid: i32,
    version: String,
}

impl Sidecar {
    pub(super) async fn start(
        &self,
        launch: &LaunchSpec,
        temp_dirs: &Arc<TempDirs>,
        number: u64,
    ) -> Result<StartedBrowser, StartError> {
        let spec = self.process_spec(&temp_dirs.browser_dir(number)).await?;
        let (mut process, mut lines) = ProcessGroup::start(temp_dirs, number, &spec).await?;
        let stdin = process.take_stdin();
        let mut stdin = stdin.ok_or_else(|| StartError("the sidecar does not listen".to_owned()))?;
        stdin.write_all(self.settings(launch)?.as_bytes()).await?;
        let ready = match read_ready(&mut lines).await {
            Some(ready) => ready,
            None => return Err(exit_error(process).await),
        };
        // Playwright starts its browser in a separate process group.
        if let Some(browser) = Pid::from_raw(ready.pid) {
            process.add_group(browser)?;
        }
        let SidecarReady { endpoint, version, .. } = ready;
        Ok(StartedBrowser { process, endpoint, version, probe: Probe::Sidecar { stdin, lines } })
    }

    /// The script is run from a file, because its standard input carries requests.
    async fn process_spec(&self, directory: &std::path::Path) -> Result<ProcessSpec, StartError> {
        let script = directory.join("sidecar.cjs");
        tokio::fs::write(&script, SCRIPT).await?;
        let variables = environment::browser_env(directory);
        Ok(ProcessSpec {
            program: self.node.clone().into(),
            args: vec![script.into()],
            env: variables,
            reads_stdin: true,
        })
    }

    fn settings(&self, launch: &LaunchSpec) -> Result<String, StartError> {
        let settings = SidecarSettings {
            package: &self.package,
            executable: &launch.binary,
            args: EXTRA_FLAGS.into_iter().chain(launch.args.iter().map(String::as_str)).collect(),
            sandbox: !geteuid().is_root(),
            path: format!("/{}", uuid::Uuid::new_v4().simple()),
        };
        let line = serde_json::to_string(&settings).map_err(|error| StartError(error.to_string()))?;
        Ok(format!("{line}\n"))
    }
}

async fn read_ready(lines: &mut OutputLines) -> Option<SidecarReady> {
    loop {
        // Node and Playwright may print warnings first.
        if let Ok(ready) = serde_json::from_str(&lines.recv().await?) {
            return Some(ready);
        }
    }
}

//! Launch of one browser, or of a Playwright server in front of one.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::fleet::{Offer, WorkerKind};
use tidemill_core::name::InvalidName;
use tokio::fs;

use super::engine::{Engine, FIREFOX_PREFERENCES};
use super::firefox;
use super::health::{Probe, http_get};
use super::output_log::OutputLines;
use super::process::ProcessGroup;
use super::sidecar::Sidecar;
use super::temp_dirs::TempDirs;
use crate::net::Endpoint;

/// How to start a browser, and what it offers.
#[derive(Debug)]
pub(super) struct LaunchSpec {
    pub(super) target: LaunchTarget,
    pub(super) engine: Engine,
    pub(super) binary: PathBuf,
    /// Flags for the browser in addition to the required ones.
    pub(super) args: Vec<String>,
    pub(super) kind: WorkerKind,
    pub(super) offer: Offer,
}

/// What clients connect to.
#[derive(Debug)]
pub(super) enum LaunchTarget {
    /// The browser itself.
    Browser,
    /// A Playwright server in front of it.
    Playwright(Sidecar),
}

/// A browser that is ready for clients.
#[derive(Debug)]
pub(super) struct StartedBrowser {
    pub(super) process: ProcessGroup,
    pub(super) endpoint: String,
    /// The browser's own name and version.
    pub(super) version: String,
    pub(super) probe: Probe,
}

/// Why a browser did not start.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct StartError(pub(super) String);

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<InvalidName> for StartError {
    fn from(error: InvalidName) -> Self {
        Self(error.to_string())
    }
}

impl LaunchSpec {
    /// Starts a browser in its own directory. If that fails or is cancelled, its processes are
    /// gone, and the caller removes the directory.
    pub(super) async fn start(
        &self,
        temp_dirs: &Arc<TempDirs>,
        number: u64,
    ) -> Result<StartedBrowser, StartError> {
        fs::create_dir(temp_dirs.browser_dir(number)).await?;
        match &self.target {
            LaunchTarget::Browser => self.start_browser(temp_dirs, number).await,
            LaunchTarget::Playwright(sidecar) => sidecar.start(self, temp_dirs, number).await,
        }
    }

    /// A short description, for the log.
    pub(super) fn name(&self) -> String {
        match &self.target {
            LaunchTarget::Browser => self.engine.name().to_owned(),
            LaunchTarget::Playwright(sidecar) => {
                format!("playwright {} on {}", sidecar.version, self.engine.name())
            }
        }
    }

    async fn start_browser(
        &self,
        temp_dirs: &Arc<TempDirs>,
        number: u64,
    ) -> Result<StartedBrowser, StartError> {
        let directory = temp_dirs.browser_dir(number);
        if self.engine == Engine::Firefox {
            fs::create_dir(directory.join("profile")).await?;
            fs::write(directory.join("profile/user.js"), FIREFOX_PREFERENCES).await?;
        }
        let launch = self.engine.process_spec(&self.binary, &self.args, &directory);
        let (process, lines) = ProcessGroup::start(temp_dirs, number, &launch).await?;
        let printed = match read_endpoint(lines).await {
            Some(printed) => printed,
            None => return Err(exit_error(process).await),
        };
        let (endpoint, probe) = (check_dialable(self.client_endpoint(&printed))?, self.probe(&printed)?);
        if self.engine == Engine::Firefox {
            firefox::wait_until_ready(&endpoint).await?;
        }
        let version = self.version(&printed).await?;
        Ok(StartedBrowser { process, endpoint, version, probe })
    }

    /// The URL that clients connect to, from what the browser printed.
    fn client_endpoint(&self, printed: &str) -> String {
        match self.engine {
            Engine::Firefox => format!("{}/session", printed.trim_end_matches('/')),
            _ => printed.to_owned(),
        }
    }

    fn probe(&self, printed: &str) -> Result<Probe, StartError> {
        let authority = authority(printed)?;
        Ok(match self.engine {
            Engine::HeadlessShell | Engine::Chromium => Probe::Http { authority, path: "/json/version" },
            Engine::Firefox => Probe::Http { authority, path: "/" },
            Engine::Command { .. } => Probe::Tcp { authority },
        })
    }

    async fn version(&self, printed: &str) -> Result<String, StartError> {
        match self.engine {
            Engine::HeadlessShell | Engine::Chromium => chromium_version(&authority(printed)?).await,
            Engine::Firefox => Ok(firefox::version(&self.binary).await),
            Engine::Command { .. } => Ok(String::new()),
        }
    }
}

/// The first WebSocket URL that a program prints; `None` if its output ends first.
async fn read_endpoint(mut lines: OutputLines) -> Option<String> {
    loop {
        let line = lines.recv().await?;
        if let Some(found) = find_websocket_url(&line) {
            return Some(found.to_owned());
        }
    }
}

fn find_websocket_url(line: &str) -> Option<&str> {
    let start = line.find("ws://").or_else(|| line.find("wss://"))?;
    let rest = &line[start..];
    let end = rest.find(|c: char| c.is_whitespace() || "\"'<>,;)".contains(c)).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// Checks that gateways and this agent's ingress can connect to the URL.
fn check_dialable(endpoint: String) -> Result<String, StartError> {
    let rule = "only plain WebSockets (ws://HOST:PORT/PATH) can be connected to";
    Endpoint::parse(&endpoint)
        .ok_or_else(|| StartError(format!("it listens at {endpoint:?}, but {rule}")))?;
    Ok(endpoint)
}

/// Host and port of a URL.
pub(super) fn authority(endpoint: &str) -> Result<String, StartError> {
    let invalid = || StartError(format!("{endpoint:?} is no address of a WebSocket"));
    let url = url::Url::parse(endpoint).map_err(|_| invalid())?;
    let host = url.host_str().ok_or_else(invalid)?;
    let port = url.port_or_known_default().ok_or_else(invalid)?;
    Ok(format!("{host}:{port}"))
}

/// The error of a program that has closed its output.
pub(super) async fn exit_error(mut process: ProcessGroup) -> StartError {
    let ended = process.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
    let output = process.output_tail.to_string();
    process.destroy().await;
    StartError(if output.is_empty() { ended } else { format!("{ended}; it said: {output}") })
}

async fn chromium_version(authority: &str) -> Result<String, StartError> {
    #[derive(serde::Deserialize)]
    struct DevToolsInfo {
        #[serde(rename = "Browser")]
        browser: String,
    }
    let body = http_get(authority, "/json/version").await.map_err(StartError)?;
    let info: DevToolsInfo = serde_json::from_slice(&body).map_err(|error| StartError(error.to_string()))?;
    Ok(info.browser)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_whatever_is_said_around_it() {
        let cases = [
            (
                "DevTools listening on ws://127.0.0.1:1/devtools/browser/a-b",
                "ws://127.0.0.1:1/devtools/browser/a-b",
            ),
            ("WebDriver BiDi listening on ws://127.0.0.1:43733", "ws://127.0.0.1:43733"),
            (r#"{"ws":"wss://h:1/x?y=1","a":2}"#, "wss://h:1/x?y=1"),
        ];
        for (line, address) in cases {
            assert_eq!(find_websocket_url(line), Some(address));
        }
        assert_eq!(find_websocket_url("nothing at http://here"), None);
    }

    #[test]
    fn what_nobody_can_dial_is_refused_with_words() {
        assert!(check_dialable("ws://127.0.0.1:1/x".to_owned()).is_ok());
        let refused = check_dialable("wss://127.0.0.1:1/x".to_owned()).unwrap_err().to_string();
        assert!(refused.contains("wss://127.0.0.1:1/x") && refused.contains("plain"), "{refused}");
    }
}

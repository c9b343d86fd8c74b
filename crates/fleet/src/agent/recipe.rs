//! How to make one thing that clients can be given: a browser, or a Playwright server on one.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::fleet::{Offer, WorkerKind};
use tidemill_core::name::InvalidName;
use tokio::fs;

use super::engine::{Engine, PREFERENCES};
use super::firefox;
use super::health::{Probe, get};
use super::place::Place;
use super::process::Process;
use super::sidecar::Sidecar;
use super::words::Lines;
use crate::wire::Endpoint;

/// How to make one, and what to call it.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) what: What,
    pub(super) engine: Engine,
    pub(super) binary: PathBuf,
    /// Flags for the browser beyond the necessary ones.
    pub(super) args: Vec<String>,
    pub(super) kind: WorkerKind,
    pub(super) offer: Offer,
}

/// What clients speak to.
#[derive(Debug)]
pub(super) enum What {
    /// The browser itself.
    Browser,
    /// A Playwright server in front of it.
    Playwright(Sidecar),
}

/// One that is ready for clients.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) endpoint: String,
    /// What browser it is, in its own words.
    pub(super) version: String,
    pub(super) probe: Probe,
}

/// Why one did not come up, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotStarted(pub(super) String);

impl From<std::io::Error> for NotStarted {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<InvalidName> for NotStarted {
    fn from(error: InvalidName) -> Self {
        Self(error.to_string())
    }
}

impl Recipe {
    /// Starts one in a room of the place. If it does not come up, or nobody waits for it any more, its processes are
    /// gone, and the room is to be vacated.
    pub(super) async fn start(&self, place: &Arc<Place>, number: u64) -> Result<Started, NotStarted> {
        fs::create_dir(place.room(number)).await?;
        match &self.what {
            What::Browser => self.start_browser(place, number).await,
            What::Playwright(sidecar) => sidecar.start(self, place, number).await,
        }
    }

    /// What it is, in a few words.
    pub(super) fn name(&self) -> String {
        match &self.what {
            What::Browser => self.engine.name().to_owned(),
            What::Playwright(sidecar) => format!("playwright {} on {}", sidecar.version, self.engine.name()),
        }
    }

    async fn start_browser(&self, place: &Arc<Place>, number: u64) -> Result<Started, NotStarted> {
        let directory = place.room(number);
        if self.engine == Engine::Firefox {
            fs::create_dir(directory.join("profile")).await?;
            fs::write(directory.join("profile/user.js"), PREFERENCES).await?;
        }
        let launch = self.engine.launch(&self.binary, &self.args, &directory);
        let (process, lines) = Process::start(place, number, &launch).await?;
        let printed = match endpoint(lines).await {
            Some(printed) => printed,
            None => return Err(died(process).await),
        };
        let (endpoint, probe) = (dialable(self.endpoint(&printed))?, self.probe(&printed)?);
        if self.engine == Engine::Firefox {
            firefox::is_up(&endpoint).await?;
        }
        let version = self.version(&printed).await?;
        Ok(Started { process, endpoint, version, probe })
    }

    /// Where clients connect, by what a browser printed.
    fn endpoint(&self, printed: &str) -> String {
        match self.engine {
            Engine::Firefox => format!("{}/session", printed.trim_end_matches('/')),
            _ => printed.to_owned(),
        }
    }

    fn probe(&self, printed: &str) -> Result<Probe, NotStarted> {
        let authority = authority(printed)?;
        Ok(match self.engine {
            Engine::HeadlessShell | Engine::Chromium => Probe::Http { authority, path: "/json/version" },
            Engine::Firefox => Probe::Http { authority, path: "/" },
            Engine::Command { .. } => Probe::Tcp { authority },
        })
    }

    async fn version(&self, printed: &str) -> Result<String, NotStarted> {
        match self.engine {
            Engine::HeadlessShell | Engine::Chromium => chromium_version(&authority(printed)?).await,
            Engine::Firefox => Ok(firefox::version(&self.binary).await),
            Engine::Command { .. } => Ok(String::new()),
        }
    }
}

/// The first WebSocket address that a program prints; nothing if it ends before.
async fn endpoint(mut lines: Lines) -> Option<String> {
    loop {
        let line = lines.recv().await?;
        if let Some(found) = address_in(&line) {
            return Some(found.to_owned());
        }
    }
}

fn address_in(line: &str) -> Option<&str> {
    let start = line.find("ws://").or_else(|| line.find("wss://"))?;
    let rest = &line[start..];
    let end = rest.find(|c: char| c.is_whitespace() || "\"'<>,;)".contains(c)).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// An address that gateways, and this agent's door, can connect to.
fn dialable(endpoint: String) -> Result<String, NotStarted> {
    let rule = "only plain WebSockets (ws://HOST:PORT/PATH) can be connected to";
    Endpoint::parse(&endpoint)
        .ok_or_else(|| NotStarted(format!("it listens at {endpoint:?}, but {rule}")))?;
    Ok(endpoint)
}

/// Host and port of an address.
pub(super) fn authority(endpoint: &str) -> Result<String, NotStarted> {
    let not_one = || NotStarted(format!("{endpoint:?} is no address of a WebSocket"));
    let url = url::Url::parse(endpoint).map_err(|_| not_one())?;
    let host = url.host_str().ok_or_else(not_one)?;
    let port = url.port_or_known_default().ok_or_else(not_one)?;
    Ok(format!("{host}:{port}"))
}

/// Why a program that has closed its output is no use.
pub(super) async fn died(mut process: Process) -> NotStarted {
    let ended = process.ended().await.map_or_else(|error| error.to_string(), |status| status.to_string());
    let words = process.last_words.to_string();
    process.destroy().await;
    NotStarted(if words.is_empty() { ended } else { format!("{ended}; it said: {words}") })
}

async fn chromium_version(authority: &str) -> Result<String, NotStarted> {
    #[derive(serde::Deserialize)]
    struct About {
        #[serde(rename = "Browser")]
        browser: String,
    }
    let body = get(authority, "/json/version").await.map_err(NotStarted)?;
    let about: About = serde_json::from_slice(&body).map_err(|error| NotStarted(error.to_string()))?;
    Ok(about.browser)
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
            assert_eq!(address_in(line), Some(address));
        }
        assert_eq!(address_in("nothing at http://here"), None);
    }

    #[test]
    fn what_nobody_can_dial_is_refused_with_words() {
        assert!(dialable("ws://127.0.0.1:1/x".to_owned()).is_ok());
        let refused = dialable("wss://127.0.0.1:1/x".to_owned()).unwrap_err().to_string();
        assert!(refused.contains("wss://127.0.0.1:1/x") && refused.contains("plain"), "{refused}");
    }
}

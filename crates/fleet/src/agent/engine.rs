//! The browsers there are: how each is found, started and spoken to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tidemill_core::fleet::{Offer, WorkerKind};

use super::environment::{self, Variables};
use super::error::AgentError;
use super::find;
use super::process::Launch;

/// What a browser is and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// Chromium without everything that only a screen needs: a fraction of the processor time of the full one.
    HeadlessShell,
    /// The full Chromium, without a window.
    Chromium,
    /// Firefox, over WebDriver BiDi.
    Firefox,
    /// Anything that prints a WebSocket's address when it is ready. Run by `sh -c`.
    Command {
        /// What to run.
        command: String,
        /// What clients ask for to get it.
        kind: WorkerKind,
        /// What clients speak to it.
        offer: Offer,
    },
}

/// Chromium must not call home, and must not share anything with other browsers.
const CHROMIUM: [&str; 16] = [
    "--headless",
    "--remote-debugging-port=0",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    // Shared memory in the browser's own directory: it goes with it, and containers have little of the other kind.
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-quic",
    "--disable-sync",
    // WebRTC would speak UDP past the proxy that a job's pages are held to. The headless shell knows the first name of
    // this only, and Chromium the second.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
];

const FIREFOX: [&str; 4] = ["--headless", "--no-remote", "--new-instance", "--remote-debugging-port=0"];

/// What keeps Firefox from calling home and from asking questions that nobody answers.
pub(super) const PREFERENCES: &str = include_str!("firefox.js");

impl Engine {
    /// What it is called: on the command line, in the log, and in a member's detail.
    pub fn name(&self) -> &'static str {
        match self {
            Self::HeadlessShell => "headless-shell",
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
            Self::Command { .. } => "command",
        }
    }

    /// Whether it is a Chromium.
    pub(super) fn is_chromium(&self) -> bool {
        matches!(self, Self::HeadlessShell | Self::Chromium)
    }

    /// What clients ask for to get one: a name that is valid by its letters.
    pub(super) fn kind(&self) -> Result<WorkerKind, AgentError> {
        Ok(match self {
            Self::HeadlessShell | Self::Chromium => WorkerKind::new("chromium")?,
            Self::Firefox => WorkerKind::new("firefox")?,
            Self::Command { kind, .. } => kind.clone(),
        })
    }

    /// What clients speak to it.
    pub(super) fn offer(&self) -> Result<Offer, AgentError> {
        Ok(match self {
            Self::HeadlessShell | Self::Chromium => Offer::new("cdp")?,
            Self::Firefox => Offer::new("bidi")?,
            Self::Command { offer, .. } => offer.clone(),
        })
    }

    /// Where its program is: `binary`, or where such programs usually are.
    pub(super) fn find(&self, binary: Option<&Path>) -> Result<PathBuf, AgentError> {
        match (self, binary) {
            (Self::Command { .. }, Some(_)) => {
                Err(AgentError::Options("a command has no binary of its own".into()))
            }
            (Self::Command { .. }, None) => Ok("sh".into()),
            (_, Some(binary)) => find::named(binary),
            (_, None) => find::usual(self),
        }
    }

    /// How to start one that has `directory` for itself.
    pub(super) fn launch(&self, binary: &Path, extra: &[String], directory: &Path) -> Launch {
        let mut args: Vec<OsString> = match self {
            Self::HeadlessShell | Self::Chromium => chromium_args(directory),
            Self::Firefox => firefox_args(directory),
            Self::Command { command, .. } => vec!["-c".into(), command.into()],
        };
        args.extend(extra.iter().map(Into::into));
        if self.is_chromium() {
            args.push("about:blank".into());
        }
        Launch { program: binary.into(), args, variables: self.variables(directory), listens: false }
    }

    /// All of its environment.
    fn variables(&self, directory: &Path) -> Variables {
        match self {
            Self::Command { .. } => environment::of_command(directory),
            _ => environment::of_browser(directory),
        }
    }
}

fn chromium_args(directory: &Path) -> Vec<OsString> {
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(directory.join("profile"));
    // Chromium refuses to run as root with its sandbox, and only then may it go without.
    let bare = geteuid().is_root().then(|| "--no-sandbox".into());
    CHROMIUM.iter().map(Into::into).chain([profile]).chain(bare).collect()
}

fn firefox_args(directory: &Path) -> Vec<OsString> {
    let profile = ["--profile".into(), directory.join("profile").into_os_string()];
    FIREFOX.iter().map(Into::into).chain(profile).collect()
}

impl std::str::FromStr for Engine {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let known = [Self::HeadlessShell, Self::Chromium, Self::Firefox];
        let names = known.each_ref().map(Self::name).join(", ");
        let found = known.into_iter().find(|engine| engine.name() == name);
        found.ok_or_else(|| format!("{name:?} is no engine: there are {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_reads_back_from_its_name() {
        for engine in [Engine::HeadlessShell, Engine::Chromium, Engine::Firefox] {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        assert!("netscape".parse::<Engine>().unwrap_err().contains("headless-shell, chromium, firefox"));
    }

    #[test]
    fn a_browser_has_its_profile_in_its_directory() {
        for engine in [Engine::HeadlessShell, Engine::Firefox] {
            let launch = engine.launch(Path::new("/b"), &[], Path::new("/x/7"));
            assert!(launch.args.iter().any(|arg| arg.to_string_lossy().ends_with("/x/7/profile")));
        }
    }
}

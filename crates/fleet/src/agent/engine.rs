//! The supported browsers: how each is found, started and connected to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tidemill_core::fleet::{Offer, WorkerKind};

use super::environment::{self, EnvVars};
use super::error::AgentError;
use super::find;
use super::process::ProcessSpec;

/// A kind of browser program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// Chromium without the parts that only a screen needs. It uses a fraction of the full
    /// browser's CPU time.
    HeadlessShell,
    /// The full Chromium, without a window.
    Chromium,
    /// Firefox, over WebDriver BiDi.
    Firefox,
    /// Any program that prints a WebSocket URL when it is ready. Run by `sh -c`.
    Command {
        /// The command line.
        command: String,
        /// The worker kind that clients request.
        kind: WorkerKind,
        /// The protocol that clients speak to it.
        offer: Offer,
    },
}

/// Flags that stop Chromium from calling home and from sharing state with other browsers.
const CHROMIUM_FLAGS: [&str; 16] = [
    "--headless",
    "--remote-debugging-port=0",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    // Puts shared memory into the browser's own directory, which is removed with it. Containers
    // have little `/dev/shm`.
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-quic",
    "--disable-sync",
    // WebRTC would send UDP past the egress proxy of a job. The headless shell knows only the first
    // of these flags, Chromium only the second.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
];

const FIREFOX_FLAGS: [&str; 4] = ["--headless", "--no-remote", "--new-instance", "--remote-debugging-port=0"];

/// Preferences that stop Firefox from calling home and from opening dialogs.
pub(super) const FIREFOX_PREFERENCES: &str = include_str!("firefox.js");

impl Engine {
    /// The engine's name on the command line, in the log and in a worker's detail.
    pub fn name(&self) -> &'static str {
        match self {
            Self::HeadlessShell => "headless-shell",
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
            Self::Command { .. } => "command",
        }
    }

    /// Whether it is a Chromium engine.
    pub(super) fn is_chromium(&self) -> bool {
        matches!(self, Self::HeadlessShell | Self::Chromium)
    }

    /// The worker kind that clients request.
    pub(super) fn kind(&self) -> Result<WorkerKind, AgentError> {
        Ok(match self {
            Self::HeadlessShell | Self::Chromium => WorkerKind::new("chromium")?,
            Self::Firefox => WorkerKind::new("firefox")?,
            Self::Command { kind, .. } => kind.clone(),
        })
    }

    /// The protocol that clients speak to it.
    pub(super) fn offer(&self) -> Result<Offer, AgentError> {
        Ok(match self {
            Self::HeadlessShell | Self::Chromium => Offer::new("cdp")?,
            Self::Firefox => Offer::new("bidi")?,
            Self::Command { offer, .. } => offer.clone(),
        })
    }

    /// The path of its program: `binary`, or else the usual locations.
    pub(super) fn find_binary(&self, binary: Option<&Path>) -> Result<PathBuf, AgentError> {
        match (self, binary) {
            (Self::Command { .. }, Some(_)) => {
                Err(AgentError::Options("a command has no binary of its own".into()))
            }
            (Self::Command { .. }, None) => Ok("sh".into()),
            (_, Some(binary)) => find::check_executable(binary),
            (_, None) => find::find_installed(self),
        }
    }

    /// How to start a browser whose files go into `directory`.
    pub(super) fn process_spec(&self, binary: &Path, extra: &[String], directory: &Path) -> ProcessSpec {
        let mut args: Vec<OsString> = match self {
            Self::HeadlessShell | Self::Chromium => chromium_args(directory),
            Self::Firefox => firefox_args(directory),
            Self::Command { command, .. } => vec!["-c".into(), command.into()],
        };
        args.extend(extra.iter().map(Into::into));
        if self.is_chromium() {
            args.push("about:blank".into());
        }
        ProcessSpec { program: binary.into(), args, env: self.env(directory), reads_stdin: false }
    }

    /// Its whole environment.
    fn env(&self, directory: &Path) -> EnvVars {
        match self {
            Self::Command { .. } => environment::command_env(directory),
            _ => environment::browser_env(directory),
        }
    }
}

fn chromium_args(directory: &Path) -> Vec<OsString> {
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(directory.join("profile"));
    // Chromium refuses to run as root with its sandbox. No other user runs it without.
    let no_sandbox = geteuid().is_root().then(|| "--no-sandbox".into());
    CHROMIUM_FLAGS.iter().map(Into::into).chain([profile]).chain(no_sandbox).collect()
}

fn firefox_args(directory: &Path) -> Vec<OsString> {
    let profile = ["--profile".into(), directory.join("profile").into_os_string()];
    FIREFOX_FLAGS.iter().map(Into::into).chain(profile).collect()
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
            let launch = engine.process_spec(Path::new("/b"), &[], Path::new("/x/7"));
            assert!(launch.args.iter().any(|arg| arg.to_string_lossy().ends_with("/x/7/profile")));
        }
    }
}

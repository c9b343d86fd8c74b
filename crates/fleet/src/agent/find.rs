//! Lookup of browser programs in their usual locations.
//!
//! The entry on the `PATH` is often a shell script that starts the browser and waits for it. The
//! lookup skips scripts: they cost time and add flags of their own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::engine::Engine;
use super::error::AgentError;

const HEADLESS_SHELL_PATHS: [&str; 6] = [
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib/chromium/headless_shell",
    "/usr/lib64/chromium-browser/headless_shell",
    "chrome-headless-shell",
    "chromium-headless-shell",
    "headless_shell",
];

const CHROMIUM_PATHS: [&str; 10] = [
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "chromium",
    "chromium-browser",
    "chrome",
    "google-chrome",
];

const FIREFOX_PATHS: [&str; 7] = [
    "/usr/lib/firefox-esr/firefox-esr",
    "/usr/lib/firefox/firefox",
    "/usr/lib64/firefox/firefox",
    "/opt/firefox/firefox",
    "/Applications/Firefox.app/Contents/MacOS/firefox",
    "firefox-esr",
    "firefox",
];

/// The program of an engine in one of its usual locations.
pub(super) fn find_installed(engine: &Engine) -> Result<PathBuf, AgentError> {
    let candidates: &[&str] = match engine {
        Engine::HeadlessShell => &HEADLESS_SHELL_PATHS,
        Engine::Chromium => &CHROMIUM_PATHS,
        Engine::Firefox => &FIREFOX_PATHS,
        Engine::Command { .. } => &[],
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = candidates
        .iter()
        .flat_map(|candidate| candidate_paths(candidate, &path))
        .find(|path| is_browser(path));
    path.ok_or_else(|| AgentError::NoBrowser { engine: engine.name() })
}

/// A program that the user named. It may be a script: its whole process group is killed in the end.
pub(super) fn check_executable(binary: &Path) -> Result<PathBuf, AgentError> {
    let absolute = binary.canonicalize().ok().filter(|path| is_executable(path));
    absolute.ok_or_else(|| AgentError::NotExecutable(binary.to_owned()))
}

/// A program on the `PATH`.
pub(super) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    candidate_paths(name, &path).into_iter().find(|path| is_executable(path))
}

fn candidate_paths(candidate: &str, path: &OsStr) -> Vec<PathBuf> {
    if candidate.starts_with('/') {
        return vec![candidate.into()];
    }
    std::env::split_paths(path).map(|directory| directory.join(candidate)).collect()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn is_browser(path: &Path) -> bool {
    let mut start = [0; 2];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    is_executable(path) && read.is_ok() && start != *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_no_browser_but_may_be_named() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("chromium");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!is_browser(&script));
        assert!(check_executable(&script).is_ok());
        assert!(matches!(check_executable(directory.path()), Err(AgentError::NotExecutable(_))));
    }
}

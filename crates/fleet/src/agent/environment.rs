//! The environment of a browser process: as little of the agent's as it needs.
//!
//! A client can make its browser read files, and `/proc/self/environ` is one. The agent's
//! environment contains secrets: the store's URL with its password, and often cloud credentials.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Environment variables as name and value.
pub(super) type EnvVars = Vec<(OsString, OsString)>;

/// Program lookup, language, time zone, display and fonts.
const INHERITED_VARS: [&str; 5] = ["PATH", "LANG", "LANGUAGE", "TZ", "DISPLAY"];
const INHERITED_PREFIXES: [&str; 2] = ["LC_", "FONTCONFIG"];

/// The prefix of Tidemill's own variables. One of them is the store's URL.
const TIDEMILL_PREFIX: &str = "TIDEMILL_";

/// Directories of per-user files. All point into the browser's directory, which is removed with the
/// browser.
const HOME_VARS: [(&str, &str); 6] = [
    ("HOME", ""),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_RUNTIME_DIR", ""),
];

/// The whole environment of a browser, or of a server in front of one. It inherits only variables
/// that cannot be secrets.
pub(super) fn browser_env(directory: &Path) -> EnvVars {
    let mut variables: EnvVars = std::env::vars_os().filter(|(name, _)| is_inherited(name)).collect();
    let homes = HOME_VARS.iter().map(|(name, subdirectory)| {
        let home = if subdirectory.is_empty() { directory.to_owned() } else { directory.join(subdirectory) };
        (OsString::from(name), home.into_os_string())
    });
    variables.extend(homes);
    // The crash reporter is a process that leaves the process group and would outlive it.
    variables.push(("MOZ_CRASHREPORTER_DISABLE".into(), "1".into()));
    variables.extend(directory_vars(directory));
    variables
}

/// The environment of a user-supplied command: everything the agent has except Tidemill's own
/// variables.
pub(super) fn command_env(directory: &Path) -> EnvVars {
    let inherited = std::env::vars_os().filter(|(name, _)| !starts_with(name, TIDEMILL_PREFIX));
    inherited.chain(directory_vars(directory)).collect()
}

fn directory_vars(directory: &Path) -> [(OsString, OsString); 2] {
    ["TMPDIR", "TIDEMILL_BROWSER_DIR"].map(|name| (name.into(), directory.into()))
}

fn is_inherited(name: &OsStr) -> bool {
    INHERITED_VARS.iter().any(|known| name == *known)
        || INHERITED_PREFIXES.iter().any(|prefix| starts_with(name, prefix))
}

fn starts_with(name: &OsStr, prefix: &str) -> bool {
    name.as_encoded_bytes().starts_with(prefix.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_browser_writes_lands_in_its_directory() {
        let directory = Path::new("/x/7");
        let variables = browser_env(directory);
        let is_inside = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.is_some_and(|(_, value)| Path::new(value).starts_with(directory))
        };
        let names = ["TMPDIR", "TIDEMILL_BROWSER_DIR"].into_iter().chain(HOME_VARS.map(|(name, _)| name));
        names.for_each(|name| assert!(is_inside(name), "{name}"));
    }

    #[test]
    fn only_what_cannot_be_a_secret_is_passed_on() {
        for name in ["PATH", "LC_ALL", "FONTCONFIG_FILE", "TZ"] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
        for name in ["TIDEMILL_STORE", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "HOME", "PATHOLOGY"] {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
    }
}

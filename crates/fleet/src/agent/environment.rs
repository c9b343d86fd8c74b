//! What a browser has of the agent's environment: as little as it needs.
//!
//! Whoever is given a browser can make it read files, and a process's environment is one. The agent's has what its users
//! never see: the address of the store with its password, and often the keys of a cloud.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Variables, by their names.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// Where programs are, what language they speak, what time it is, and what shows them and their letters.
const PASSED_ON: [&str; 5] = ["PATH", "LANG", "LANGUAGE", "TZ", "DISPLAY"];
const PASSED_ON_BY_PREFIX: [&str; 2] = ["LC_", "FONTCONFIG"];

/// Ours: the store's address is among them.
const OURS: &str = "TIDEMILL_";

/// Where a program keeps what belongs to its user. All of that is to land in the browser's directory, and to go with it.
const HOMES: [(&str, &str); 6] = [
    ("HOME", ""),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_RUNTIME_DIR", ""),
];

/// All that a browser, or a server in front of one, has: of this process's environment only what cannot be a secret.
pub(super) fn of_browser(directory: &Path) -> Variables {
    let mut variables: Variables = std::env::vars_os().filter(|(name, _)| is_passed_on(name)).collect();
    let homes = HOMES.iter().map(|(name, below)| {
        let home = if below.is_empty() { directory.to_owned() } else { directory.join(below) };
        (OsString::from(name), home.into_os_string())
    });
    variables.extend(homes);
    // Its crash reporter is a process that leaves the group, and outlives it.
    variables.push(("MOZ_CRASHREPORTER_DISABLE".into(), "1".into()));
    variables.extend(own(directory));
    variables
}

/// What a command has that somebody wrote for this agent: all of this process's environment but what is ours.
pub(super) fn of_command(directory: &Path) -> Variables {
    let passed_on = std::env::vars_os().filter(|(name, _)| !begins_with(name, OURS));
    passed_on.chain(own(directory)).collect()
}

fn own(directory: &Path) -> [(OsString, OsString); 2] {
    ["TMPDIR", "TIDEMILL_BROWSER_DIR"].map(|name| (name.into(), directory.into()))
}

fn is_passed_on(name: &OsStr) -> bool {
    PASSED_ON.iter().any(|known| name == *known)
        || PASSED_ON_BY_PREFIX.iter().any(|prefix| begins_with(name, prefix))
}

fn begins_with(name: &OsStr, prefix: &str) -> bool {
    name.as_encoded_bytes().starts_with(prefix.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_browser_writes_lands_in_its_directory() {
        let directory = Path::new("/x/7");
        let variables = of_browser(directory);
        let is_inside = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.is_some_and(|(_, value)| Path::new(value).starts_with(directory))
        };
        let names = ["TMPDIR", "TIDEMILL_BROWSER_DIR"].into_iter().chain(HOMES.map(|(name, _)| name));
        names.for_each(|name| assert!(is_inside(name), "{name}"));
    }

    #[test]
    fn only_what_cannot_be_a_secret_is_passed_on() {
        for name in ["PATH", "LC_ALL", "FONTCONFIG_FILE", "TZ"] {
            assert!(is_passed_on(OsStr::new(name)), "{name}");
        }
        for name in ["TIDEMILL_STORE", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "HOME", "PATHOLOGY"] {
            assert!(!is_passed_on(OsStr::new(name)), "{name}");
        }
    }
}

//! Finds the versions of Playwright that are installed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tracing::info;

use super::error::AgentError;

/// The name under which Playwright without browsers is published. It may be installed under others.
const PACKAGE: &str = "playwright-core";

/// A version of Playwright. Client and server must agree on all but the last number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
    patch: u32,
    /// What stands before a release is older than the release.
    is_release: bool,
    whole: String,
}

#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: String,
}

impl Version {
    fn read(text: &str) -> Option<Self> {
        let (numbers, rest) = text.split_once('-').unwrap_or((text, ""));
        let numbers: Vec<u32> =
            numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [major, minor, patch] = numbers[..] else { return None };
        Some(Self { major, minor, patch, is_release: rest.is_empty(), whole: text.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.whole)
    }
}

/// The versions in these directories, one for each minor version: the newest. A directory is that of a package, one of
/// packages (`node_modules`), or one that has such a directory.
pub(super) fn find(directories: &[PathBuf]) -> Result<Vec<(Version, PathBuf)>, AgentError> {
    let mut found: BTreeMap<(u32, u32), (Version, PathBuf)> = BTreeMap::new();
    for directory in directories {
        let packages = packages(directory);
        if packages.is_empty() {
            return Err(AgentError::NotPlaywright(directory.clone()));
        }
        for (version, path) in packages {
            let minor = (version.major, version.minor);
            match found.get(&minor) {
                Some((newer, _)) if *newer >= version => info!("playwright {version} gives way to {newer}"),
                _ => drop(found.insert(minor, (version, path))),
            }
        }
    }
    Ok(found.into_values().collect())
}

fn packages(directory: &Path) -> Vec<(Version, PathBuf)> {
    let below = [directory.to_owned(), directory.join("node_modules")];
    let entries = below.iter().flat_map(|parent| parent.read_dir().into_iter().flatten().flatten());
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PACKAGE));
    let candidates = named.map(|entry| entry.path()).chain([directory.to_owned()]);
    candidates.filter_map(|path| Some((version(&path)?, path.canonicalize().ok()?))).collect()
}

fn version(package: &Path) -> Option<Version> {
    let text = std::fs::read_to_string(package.join("package.json")).ok()?;
    let manifest: Manifest = serde_json::from_str(&text).ok()?;
    (manifest.name == PACKAGE).then(|| Version::read(&manifest.version))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn install(root: &Path, name: &str, version: &str) {
        let package = root.join(name);
        fs::create_dir_all(&package).unwrap();
        let manifest = format!(r#"{{"name":"playwright-core","version":"{version}"}}"#);
        fs::write(package.join("package.json"), manifest).unwrap();
    }

    fn versions(directories: &[PathBuf]) -> Vec<String> {
        find(directories).unwrap().into_iter().map(|(version, _)| version.to_string()).collect()
    }

    #[test]
    fn finds_every_minor_version_once_under_whatever_name() {
        let root = tempfile::tempdir().unwrap();
        let modules = root.path().join("node_modules");
        install(&modules, "playwright-core", "1.65.0");
        install(&modules, "playwright-core-previous", "1.64.1");
        install(&modules, "playwright-core-older", "1.64.0");
        install(&modules, "playwright-core-next", "1.65.0-beta-1");
        for directory in [root.path().to_owned(), modules.clone()] {
            assert_eq!(versions(&[directory]), ["1.64.1", "1.65.0"]);
        }
        assert_eq!(versions(&[modules.join("playwright-core")]), ["1.65.0"]);
    }

    #[test]
    fn a_directory_without_playwright_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = find(&[root.path().to_owned()]).unwrap_err();
        assert!(error.to_string().contains(&root.path().display().to_string()), "{error}");
    }
}

//! Lookup of installed versions of Playwright.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tracing::info;

use super::error::AgentError;

/// The published name of Playwright without browsers. It may be installed under other names.
const PACKAGE_NAME: &str = "playwright-core";

/// A version of Playwright. Client and server must agree on major and minor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlaywrightVersion {
    pub(super) major: u32,
    pub(super) minor: u32,
    patch: u32,
    /// A pre-release sorts before its release.
    is_release: bool,
    text: String,
}

#[derive(Deserialize)]
struct PackageManifest {
    name: String,
    version: String,
}

impl PlaywrightVersion {
    fn parse(text: &str) -> Option<Self> {
        let (numbers, rest) = text.split_once('-').unwrap_or((text, ""));
        let numbers: Vec<u32> =
            numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [major, minor, patch] = numbers[..] else { return None };
        Some(Self { major, minor, patch, is_release: rest.is_empty(), text: text.to_owned() })
    }
}

impl fmt::Display for PlaywrightVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The newest patch of each minor version in these directories. A directory is a package, a
/// `node_modules`, or the parent of a `node_modules`.
pub(super) fn find_versions(
    directories: &[PathBuf],
) -> Result<Vec<(PlaywrightVersion, PathBuf)>, AgentError> {
    let mut newest: BTreeMap<(u32, u32), (PlaywrightVersion, PathBuf)> = BTreeMap::new();
    for directory in directories {
        let packages = find_packages(directory);
        if packages.is_empty() {
            return Err(AgentError::NotPlaywright(directory.clone()));
        }
        for (version, path) in packages {
            let minor = (version.major, version.minor);
            match newest.get(&minor) {
                Some((newer, _)) if *newer >= version => info!("playwright {version} gives way to {newer}"),
                _ => drop(newest.insert(minor, (version, path))),
            }
        }
    }
    Ok(newest.into_values().collect())
}

fn find_packages(directory: &Path) -> Vec<(PlaywrightVersion, PathBuf)> {
    let parents = [directory.to_owned(), directory.join("node_modules")];
    let entries = parents.iter().flat_map(|parent| parent.read_dir().into_iter().flatten().flatten());
    let candidates_by_name =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PACKAGE_NAME));
    let candidates = candidates_by_name.map(|entry| entry.path()).chain([directory.to_owned()]);
    candidates.filter_map(|path| Some((package_version(&path)?, path.canonicalize().ok()?))).collect()
}

fn package_version(package: &Path) -> Option<PlaywrightVersion> {
    let text = std::fs::read_to_string(package.join("package.json")).ok()?;
    let manifest: PackageManifest = serde_json::from_str(&text).ok()?;
    (manifest.name == PACKAGE_NAME).then(|| PlaywrightVersion::parse(&manifest.version))?
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
        find_versions(directories).unwrap().into_iter().map(|(version, _)| version.to_string()).collect()
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
        let error = find_versions(&[root.path().to_owned()]).unwrap_err();
        assert!(error.to_string().contains(&root.path().display().to_string()), "{error}");
    }
}

//! Licences, sources and banned packages: the part of `cargo deny check` that needs no network. Reads the
//! same `deny.toml`, so that CI does not have to build cargo-deny.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::metadata::{Metadata, Package};
use crate::{license, shell};

/// The only registry that packages may come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The parts of `deny.toml` that are read here.
#[derive(Deserialize)]
struct DenyConfig {
    licenses: AllowedLicenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct AllowedLicenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<BannedPackage>,
}

#[derive(Deserialize)]
struct BannedPackage {
    #[serde(rename = "crate")]
    name: String,
}

/// Checks all packages of the build.
pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let text = std::fs::read_to_string(shell::root().join("deny.toml")).context("there is no deny.toml")?;
    let config: DenyConfig = toml::from_str(&text).context("deny.toml")?;
    let problems: Vec<_> = metadata.packages.iter().filter_map(|package| problem(package, &config)).collect();
    for problem in &problems {
        println!("    {problem}");
    }
    if !problems.is_empty() {
        bail!("{} packages are not allowed by deny.toml", problems.len());
    }
    println!("licences and sources: {} packages", metadata.packages.len());
    Ok(())
}

fn problem(package: &Package, config: &DenyConfig) -> Option<String> {
    let Package { name, version, source, license, .. } = package;
    if config.bans.deny.iter().any(|banned| banned.name == *name) {
        return Some(format!("{name} {version} is banned"));
    }
    if source.as_ref().is_some_and(|source| source != CRATES_IO) {
        return Some(format!("{name} {version} does not come from crates.io"));
    }
    let Some(license) = license else { return Some(format!("{name} {version} names no licence")) };
    match license::is_allowed(license, &config.licenses.allow) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name} {version}: the licence `{license}` is not allowed")),
        Err(error) => Some(format!("{name} {version}: {error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> DenyConfig {
        toml::from_str("[licenses]\nallow = [\"MIT\"]\n[bans]\ndeny = [{ crate = \"openssl\" }]").unwrap()
    }

    fn package(name: &str, source: Option<&str>, license: Option<&str>) -> Package {
        let (source, license) = (source.map(str::to_owned), license.map(str::to_owned));
        let (name, version) = (name.to_owned(), "1.0.0".to_owned());
        Package { name, version, source, license, ..Package::default() }
    }

    #[test]
    fn a_package_needs_a_known_source_and_an_allowed_licence() {
        let found = |package| problem(&package, &config()).unwrap_or_default();
        assert_eq!(found(package("a", Some(CRATES_IO), Some("MIT"))), "");
        assert_eq!(found(package("a", None, Some("MIT"))), "");
        assert!(found(package("openssl", Some(CRATES_IO), Some("MIT"))).contains("banned"));
        assert!(found(package("a", Some("git+https://host/a"), Some("MIT"))).contains("crates.io"));
        assert!(found(package("a", Some(CRATES_IO), Some("GPL-3.0"))).contains("GPL-3.0"));
        assert!(found(package("a", Some(CRATES_IO), None)).contains("no licence"));
    }
}

//! The packages of the build, as `cargo metadata` lists them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::shell;

/// The packages of the workspace and all their dependencies, with all features, on every platform.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The registry. A package of the workspace has none.
    pub(crate) source: Option<String>,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    /// The registries it may be published to: none for `publish = false`, absent for any.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev`, `build` or none.
    pub(crate) kind: Option<String>,
}

pub(crate) fn load() -> Result<Metadata> {
    let text = shell::read_output(&mut shell::cargo(&["metadata", "--all-features", "--format-version=1"]))?;
    serde_json::from_str(&text).context("cargo metadata printed something else")
}

impl Metadata {
    /// The packages of the workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.source.is_none())
    }

    /// The packages of the workspace that users depend on or install.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.members()
            .filter(|package| package.publish.as_ref().is_none_or(|registries| !registries.is_empty()))
    }
}

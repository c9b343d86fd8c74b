//! Who may depend on whom: surfaces → engines → core ← stores, and only the facade knows the stores.

use anyhow::Result;
use serde::Deserialize;

use crate::shell;

/// What a crate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Core,
    Store,
    Engine,
    Facade,
    Surface,
    /// The conformance suite and its servers.
    Testkit,
    /// A program that only tests.
    Trial,
    /// The project's own commands.
    Task,
}

/// Gives a crate its layer. A crate that is not here is a decision nobody has made yet.
fn layer_of(package: &str) -> Option<Layer> {
    Some(match package {
        "tidemill-core" => Layer::Core,
        "tidemill-sqlite" | "tidemill-redis" | "tidemill-postgres" => Layer::Store,
        "tidemill-worker" | "tidemill-workflow" | "tidemill-fleet" => Layer::Engine,
        "tidemill" => Layer::Facade,
        "tidemill-cli" => Layer::Surface,
        "tidemill-testkit" => Layer::Testkit,
        "tidemill-torture" | "tidemill-bench" => Layer::Trial,
        "xtask" => Layer::Task,
        _ => return None,
    })
}

/// Whether a crate of one layer may depend on one of another.
fn allows(from: Layer, to: Layer, is_dev: bool) -> bool {
    use Layer::*;
    match (from, to) {
        (Store | Engine | Facade | Surface | Testkit | Trial, Core) => true,
        (Engine | Facade | Surface, Engine) | (Facade, Store) | (Surface | Trial, Facade) => true,
        (Trial, Testkit) => true,
        // Engines are tested on a real store, everything is tested with the testkit.
        (Engine, Store) | (Store | Engine | Facade | Surface, Testkit) => is_dev,
        _ => false,
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    features: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

pub(crate) fn check() -> Result<Vec<String>> {
    let metadata = shell::output_of(&mut shell::cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    Ok(complaints(&serde_json::from_str(&metadata)?))
}

fn complaints(metadata: &Metadata) -> Vec<String> {
    let packages = &metadata.packages;
    let is_ours = |name: &str| packages.iter().any(|package| package.name == name);
    let edges = packages.iter().flat_map(|package| {
        let own = package.dependencies.iter().filter(|dependency| is_ours(&dependency.name));
        own.filter_map(|dependency| edge(&package.name, dependency))
    });
    packages.iter().filter_map(placing).chain(edges).chain(packages.iter().filter_map(features)).collect()
}

fn placing(package: &Package) -> Option<String> {
    let is_unknown = layer_of(&package.name).is_none();
    is_unknown.then(|| format!("{} has no layer: give it one in {}", package.name, file!()))
}

fn edge(from: &str, dependency: &Dependency) -> Option<String> {
    let is_dev = dependency.kind.as_deref() == Some("dev");
    let (lower, upper) = (layer_of(from)?, layer_of(&dependency.name)?);
    let how = if is_dev { ", not even for its tests" } else { "" };
    let is_wrong = !allows(lower, upper, is_dev);
    is_wrong.then(|| format!("{from} ({lower:?}) must not depend on {} ({upper:?}){how}", dependency.name))
}

/// A second driver whose transactions a store takes part in: few want it, and it is heavy. The facade only passes it on.
const DRIVERS: [(&str, &str); 1] = [("tidemill-postgres", "sqlx")];

fn features(package: &Package) -> Option<String> {
    let is_driver = |feature: &String| DRIVERS.contains(&(&package.name, feature));
    let has_others = !package.features.keys().all(is_driver);
    let is_wrong = has_others && layer_of(&package.name) != Some(Layer::Facade);
    is_wrong.then(|| format!("{} has features: only the facade has", package.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependency = |(name, kind): &(&str, Option<&str>)| Dependency {
            name: (*name).into(),
            kind: kind.map(Into::into),
        };
        let dependencies = dependencies.iter().map(dependency).collect();
        Package { name: name.into(), dependencies, features: serde_json::Map::new() }
    }

    fn complaints_about(dependent: Package) -> Vec<String> {
        let others = ["tidemill-core", "tidemill-redis", "tidemill-worker", "tidemill", "tidemill-testkit"];
        let others = others.iter().filter(|name| **name != dependent.name).map(|name| package(name, &[]));
        let packages = others.chain([package("tidemill-sqlite", &[])]).collect::<Vec<_>>();
        let packages = packages.into_iter().chain([dependent]).collect();
        complaints(&Metadata { packages })
    }

    #[test]
    fn an_engine_knows_a_store_in_its_tests_only() {
        let sqlite = "tidemill-sqlite";
        assert!(complaints_about(package("tidemill-worker", &[(sqlite, Some("dev"))])).is_empty());
        let complaints = complaints_about(package("tidemill-worker", &[(sqlite, None)]));
        assert_eq!(complaints, ["tidemill-worker (Engine) must not depend on tidemill-sqlite (Store)"]);
    }

    #[test]
    fn a_store_never_knows_an_engine_or_another_store() {
        for other in ["tidemill-worker", "tidemill-redis", "tidemill"] {
            for kind in [None, Some("dev")] {
                let complaints = complaints_about(package("tidemill-postgres", &[(other, kind)]));
                assert_eq!(complaints.len(), 1, "{other} {kind:?}");
            }
        }
    }

    #[test]
    fn the_command_line_reaches_stores_through_the_facade() {
        assert!(complaints_about(package("tidemill-cli", &[("tidemill", None)])).is_empty());
        assert_eq!(complaints_about(package("tidemill-cli", &[("tidemill-redis", None)])).len(), 1);
    }

    #[test]
    fn the_testkit_is_for_tests_only_and_knows_only_the_core() {
        assert!(
            complaints_about(package("tidemill-postgres", &[("tidemill-testkit", Some("dev"))])).is_empty()
        );
        assert_eq!(complaints_about(package("tidemill-postgres", &[("tidemill-testkit", None)])).len(), 1);
        assert_eq!(complaints_about(package("tidemill-testkit", &[("tidemill-worker", None)])).len(), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_named() {
        let complaints = complaints_about(package("tidemill-misc", &[("serde", None)]));
        assert!(complaints[0].starts_with("tidemill-misc has no layer"), "{complaints:?}");
    }

    #[test]
    fn only_the_facade_has_features() {
        let with_features = |name| {
            let mut package = package(name, &[]);
            package.features.insert("extra".into(), serde_json::Value::Null);
            complaints_about(package)
        };
        assert!(with_features("tidemill").is_empty());
        assert_eq!(with_features("tidemill-core"), ["tidemill-core has features: only the facade has"]);
    }
}

//! Rule: dependencies between crates. Surfaces → engines → core ← stores; only the facade knows the
//! stores.

use anyhow::Result;

use crate::metadata::{self, Dependency, Package};

/// The layer of a crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Core,
    Store,
    Engine,
    Facade,
    Surface,
    /// The conformance suite and its servers.
    Testkit,
    /// A program for tests and benchmarks.
    TestProgram,
    /// The commands of the project.
    Task,
}

/// The layer of a crate. A crate without one is an open decision.
fn layer_of(package: &str) -> Option<Layer> {
    Some(match package {
        "tidemill-core" => Layer::Core,
        "tidemill-sqlite" | "tidemill-redis" | "tidemill-postgres" => Layer::Store,
        "tidemill-worker" | "tidemill-workflow" | "tidemill-fleet" => Layer::Engine,
        "tidemill" => Layer::Facade,
        "tidemill-cli" => Layer::Surface,
        "tidemill-testkit" => Layer::Testkit,
        "tidemill-torture" | "tidemill-bench" => Layer::TestProgram,
        "xtask" => Layer::Task,
        _ => return None,
    })
}

/// Whether a crate of one layer may depend on a crate of another.
fn allows(from: Layer, to: Layer, is_dev: bool) -> bool {
    use Layer::*;
    match (from, to) {
        (Store | Engine | Facade | Surface | Testkit | TestProgram, Core) => true,
        (Engine | Facade | Surface, Engine) | (Facade, Store) | (Surface | TestProgram, Facade) => true,
        (TestProgram, Testkit) => true,
        // Tests of engines use a real store, and all tests may use the testkit.
        (Engine, Store) | (Store | Engine | Facade | Surface, Testkit) => is_dev,
        _ => false,
    }
}

pub(crate) fn check() -> Result<Vec<String>> {
    Ok(problems(&metadata::load()?.members().collect::<Vec<_>>()))
}

fn problems(packages: &[&Package]) -> Vec<String> {
    let is_ours = |name: &str| packages.iter().any(|package| package.name == name);
    let edges = packages.iter().flat_map(|package| {
        let own = package.dependencies.iter().filter(|dependency| is_ours(&dependency.name));
        own.filter_map(|dependency| forbidden_edge(&package.name, dependency))
    });
    packages
        .iter()
        .filter_map(|package| missing_layer(package))
        .chain(edges)
        .chain(packages.iter().filter_map(|package| forbidden_features(package)))
        .collect()
}

fn missing_layer(package: &Package) -> Option<String> {
    let is_unknown = layer_of(&package.name).is_none();
    is_unknown.then(|| format!("{} has no layer: give it one in {}", package.name, file!()))
}

fn forbidden_edge(from: &str, dependency: &Dependency) -> Option<String> {
    let is_dev = dependency.kind.as_deref() == Some("dev");
    let (lower, upper) = (layer_of(from)?, layer_of(&dependency.name)?);
    let how = if is_dev { ", not even for its tests" } else { "" };
    let is_wrong = !allows(lower, upper, is_dev);
    is_wrong.then(|| format!("{from} ({lower:?}) must not depend on {} ({upper:?}){how}", dependency.name))
}

/// Second drivers, of a store's transactions or of pages. They are heavy and rarely needed, so they
/// are features, which the facade passes on.
const DRIVER_FEATURES: [(&str, &str); 2] =
    [("tidemill-postgres", "sqlx"), ("tidemill-fleet", "chromiumoxide")];

fn forbidden_features(package: &Package) -> Option<String> {
    let is_driver = |feature: &String| DRIVER_FEATURES.contains(&(&package.name, feature));
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
        Package { name: name.into(), dependencies, ..Package::default() }
    }

    fn problems_of(dependent: Package) -> Vec<String> {
        let others = ["tidemill-core", "tidemill-redis", "tidemill-worker", "tidemill", "tidemill-testkit"];
        let others = others.iter().filter(|name| **name != dependent.name).map(|name| package(name, &[]));
        let packages = others.chain([package("tidemill-sqlite", &[])]).collect::<Vec<_>>();
        problems(&packages.iter().chain([&dependent]).collect::<Vec<_>>())
    }

    #[test]
    fn an_engine_knows_a_store_in_its_tests_only() {
        let sqlite = "tidemill-sqlite";
        assert!(problems_of(package("tidemill-worker", &[(sqlite, Some("dev"))])).is_empty());
        let problems = problems_of(package("tidemill-worker", &[(sqlite, None)]));
        assert_eq!(problems, ["tidemill-worker (Engine) must not depend on tidemill-sqlite (Store)"]);
    }

    #[test]
    fn a_store_never_knows_an_engine_or_another_store() {
        for other in ["tidemill-worker", "tidemill-redis", "tidemill"] {
            for kind in [None, Some("dev")] {
                let problems = problems_of(package("tidemill-postgres", &[(other, kind)]));
                assert_eq!(problems.len(), 1, "{other} {kind:?}");
            }
        }
    }

    #[test]
    fn the_command_line_reaches_stores_through_the_facade() {
        assert!(problems_of(package("tidemill-cli", &[("tidemill", None)])).is_empty());
        assert_eq!(problems_of(package("tidemill-cli", &[("tidemill-redis", None)])).len(), 1);
    }

    #[test]
    fn the_testkit_is_for_tests_only_and_knows_only_the_core() {
        assert!(problems_of(package("tidemill-postgres", &[("tidemill-testkit", Some("dev"))])).is_empty());
        assert_eq!(problems_of(package("tidemill-postgres", &[("tidemill-testkit", None)])).len(), 1);
        assert_eq!(problems_of(package("tidemill-testkit", &[("tidemill-worker", None)])).len(), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_named() {
        let problems = problems_of(package("tidemill-misc", &[("serde", None)]));
        assert!(problems[0].starts_with("tidemill-misc has no layer"), "{problems:?}");
    }

    #[test]
    fn only_the_facade_has_features() {
        let with_features = |name| {
            let mut package = package(name, &[]);
            package.features.insert("extra".into(), Vec::new());
            problems_of(package)
        };
        assert!(with_features("tidemill").is_empty());
        assert_eq!(with_features("tidemill-core"), ["tidemill-core has features: only the facade has"]);
    }
}

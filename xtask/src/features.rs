//! Each feature alone: builds that the workspace with all features never does.

use std::time::Instant;

use anyhow::Result;

use crate::metadata::{Metadata, Package};
use crate::shell;

/// Checks every published package: without features, and with each single one. Warnings are errors.
pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let started = Instant::now();
    for package in metadata.published() {
        for features in feature_sets(package) {
            // Clippy, because its flags apply to our packages only. Other flags would build all
            // dependencies again.
            let args = ["clippy", "--quiet", "--package", &package.name, "--no-default-features"];
            let mut clippy = shell::cargo(&args);
            shell::run(clippy.args(["--features", features, "--", "-D", "warnings"]))?;
        }
    }
    println!("each feature alone: {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// No feature, then each feature of the package.
fn feature_sets(package: &Package) -> Vec<&str> {
    let features = package.features.keys().map(String::as_str).filter(|feature| *feature != "default");
    std::iter::once("").chain(features).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata;

    #[test]
    fn the_facade_is_checked_without_a_store_and_with_each_one() {
        let metadata = metadata::load().unwrap();
        let facade = metadata.members().find(|package| package.name == "tidemill").unwrap();
        let sets = feature_sets(facade);
        assert_eq!(sets[0], "");
        assert!(
            ["sqlite", "redis", "postgres", "fleet"].iter().all(|store| sets.contains(store)),
            "{sets:?}"
        );
        assert!(!sets.contains(&"default"));
    }
}

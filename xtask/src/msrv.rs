//! The oldest supported compiler: `rust-version` of the workspace.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::{servers, shell};

/// Checks the library and the program with the oldest supported compiler. Installs the compiler if
/// it is missing.
pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    if !servers::is_installed("rustup") {
        println!("oldest compiler: not checked, because there is no rustup in PATH");
        return Ok(());
    }
    let started = Instant::now();
    let facade = metadata.members().find(|package| package.name == "tidemill");
    let version = facade.and_then(|package| package.rust_version.as_deref());
    let version = version.context("the package `tidemill` has no rust-version")?;
    let installed = shell::read_output(&mut shell::command("rustup", &["toolchain", "list"]))?;
    if !has_toolchain(&installed, version) {
        println!("Installing Rust {version}, the oldest supported compiler.");
        let args = ["toolchain", "install", version, "--profile", "minimal"];
        if let Err(error) = shell::run(&mut shell::command("rustup", &args)) {
            println!("oldest compiler: not checked, because it cannot be installed: {error:#}");
            return Ok(());
        }
    }
    // The program depends on the library with its default features and the fleet. sqlx is left out,
    // because it needs a newer compiler.
    let args = ["run", version, "cargo", "check", "--quiet", "--package", "tidemill-cli"];
    shell::run(&mut shell::command("rustup", &args))?;
    println!("Rust {version}: {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Whether `rustup toolchain list` shows this version.
fn has_toolchain(list: &str, version: &str) -> bool {
    list.lines().any(|line| line.strip_prefix(version).is_some_and(|rest| rest.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_toolchain_is_found_by_its_version() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\n1.89-x86_64-unknown-linux-gnu\n";
        assert!(has_toolchain(list, "1.89"));
        assert!(!has_toolchain(list, "1.8"));
        assert!(!has_toolchain(list, "1.90"));
    }
}

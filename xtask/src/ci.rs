//! `cargo xtask ci`: all checks that must pass before a change is merged.

use anyhow::Result;

use crate::{build_time, dependencies, features, metadata, msrv, shell, test, tidy};

pub(crate) fn run() -> Result<()> {
    shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))?;
    tidy::run()?;
    let metadata = metadata::load()?;
    dependencies::check(&metadata)?;
    shell::run(&mut shell::cargo(&[
        "clippy",
        "--workspace",
        "--all-features",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    features::check(&metadata)?;
    msrv::check(&metadata)?;
    let mut doc = shell::cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--quiet"]);
    shell::run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    test::run(test::TestScope::Everything)?;
    build_time::run()
}

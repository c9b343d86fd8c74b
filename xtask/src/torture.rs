//! `cargo xtask torture`: builds the torture binary and runs it.

use anyhow::Result;

use crate::{servers, shell};

pub(crate) fn run(args: &[&str]) -> Result<()> {
    servers::install()?;
    let own = ["run", "--quiet", "--package", "tidemill-torture", "--bin", "torture", "--"];
    shell::run(&mut shell::cargo(&[&own[..], args].concat()))
}

//! `cargo xtask test`: every test there is, the fast ones first.

use std::time::Instant;

use anyhow::Result;

use crate::suite::{self, Stage};
use crate::summary::Summary;
use crate::{libtest, readme, servers, shell};

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    WithoutServers,
}

pub(crate) fn run(scope: Scope) -> Result<()> {
    let begun = Instant::now();
    if scope == Scope::Everything {
        servers::install()?;
    }
    let built = suite::build()?;
    let mut summary = Summary::default();
    let wanted = |stage| scope == Scope::Everything || stage == Stage::Fast;
    for suite in built.suites.iter().filter(|suite| wanted(suite.stage)) {
        println!("{} {}", suite.package, suite.target);
        let tally = libtest::run(&mut suite.command())?;
        // Every crate has a program for its unit tests, whether it has any or not.
        if tally.count() > 0 {
            summary.add(&suite.package, &suite.target, tally);
        }
    }
    println!("documentation");
    let doc = libtest::run(&mut shell::cargo(&["test", "--workspace", "--all-features", "--doc"]))?;
    summary.add("workspace", "documentation", doc);
    summary.add("workspace", "README", readme::run(built.tidemill.as_deref())?);
    summary.close(begun.elapsed())
}

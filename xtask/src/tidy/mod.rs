//! `cargo xtask tidy`: rules of the project that no compiler checks.

mod async_docs;
mod docs;
mod edges;
mod files;
mod names;
mod retired_words;
mod statements;
mod verbs;
mod words;

use anyhow::{Result, bail};

use crate::shell;

pub(crate) fn run() -> Result<()> {
    println!("$ xtask tidy");
    let root = shell::root();
    let checks = [
        ("layers", edges::check()?),
        ("verbs", verbs::check(&root)?),
        ("statements", statements::check(&root)?),
        ("words", words::check(&root)?),
        ("names", names::check(&root)?),
        ("documents", docs::check(&root)?),
        ("asynchronous functions", async_docs::check(&root)?),
    ];
    report(&checks)
}

/// Checks the names of types, modules and files alone.
pub(crate) fn run_names() -> Result<()> {
    println!("$ xtask tidy --names");
    report(&[("names", names::check(&shell::root())?)])
}

/// Prints all problems; returns an error if there are any.
fn report(checks: &[(&str, Vec<String>)]) -> Result<()> {
    let problems = checks.iter().flat_map(|(check, found)| found.iter().map(move |text| (check, text)));
    let count = problems.inspect(|(check, text)| println!("    {check}: {text}")).count();
    if count > 0 {
        bail!("{count} problems");
    }
    Ok(())
}

//! `cargo xtask tidy`: the rules of the project that no compiler checks.

mod docs;
mod edges;
mod files;
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
        ("words", words::check(&root)?),
        ("documents", docs::check(&root)?),
    ];
    let complaints = checks.iter().flat_map(|(check, found)| found.iter().map(move |text| (check, text)));
    let count = complaints.inspect(|(check, text)| println!("    {check}: {text}")).count();
    if count > 0 {
        bail!("{count} things are not tidy");
    }
    Ok(())
}

//! Runs every command the README shows, so that none of them is a promise only.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::libtest::Tally;
use crate::shell;

/// What the reader's first command builds is here already, in the profile of the tests.
const FROM_SOURCE: &str = "cargo run --release --";

/// What runs these commands is the second command of the README.
const OURSELVES: &str = "cargo xtask test";

/// Runs the blocks marked `sh`, each as one script in a directory of its own.
pub(crate) fn run(tidemill: Option<&Path>) -> Result<Tally> {
    println!("README");
    let begun = Instant::now();
    let readme = std::fs::read_to_string(shell::root().join("README.md")).context("there is no README.md")?;
    let mut tally = Tally::default();
    for script in blocks(&readme).map(|block| runnable(&block)).filter(|script| !script.trim().is_empty()) {
        let program = tidemill.context("no crate builds the program `tidemill` that the README runs")?;
        match run_block(&script, program) {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                println!("    {error:#}");
                tally.failed += 1;
            }
        }
    }
    tally.took = begun.elapsed();
    Ok(tally)
}

fn run_block(script: &str, program: &Path) -> Result<()> {
    let directory = Scratch::new()?;
    let programs = program.parent().context("a program without a directory")?.display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(&directory.0).env("PATH", path).stdin(Stdio::null());
    let output = command.output().context("cannot run sh")?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    bail!("this block failed: {}\n{script}\n{}", output.status, String::from_utf8_lossy(&said))
}

/// The contents of every block marked `sh`.
fn blocks(readme: &str) -> impl Iterator<Item = String> + '_ {
    let mut lines = readme.lines();
    std::iter::from_fn(move || {
        lines.find(|line| *line == "```sh")?;
        Some(lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect())
    })
}

/// The block as it can be run here.
fn runnable(block: &str) -> String {
    let lines = block.lines().filter(|line| !line.starts_with(OURSELVES));
    lines.map(|line| line.replace(FROM_SOURCE, "tidemill") + "\n").collect()
}

/// A directory that is removed again.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tidemill-readme-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the directory for temporary files harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_run_except_the_command_that_runs_it() {
        let readme = "text\n```sh\ncargo run --release -- dev --demo   # look\ncargo xtask test\n```\n```rust\nx\n```\n```sh\ny\n```\n";
        let scripts: Vec<_> = blocks(readme).map(|block| runnable(&block)).collect();
        assert_eq!(scripts, ["tidemill dev --demo   # look\n", "y\n"]);
    }
}

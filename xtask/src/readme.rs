//! Runs every command of the README as a test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::libtest::TestReport;
use crate::shell;

/// Replaced by the binary of the tests, which is built already.
const CARGO_RUN_COMMAND: &str = "cargo run --release --";

/// Skipped, because this command runs the README's commands.
const XTASK_TEST_COMMAND: &str = "cargo xtask test";

/// Runs the blocks marked `sh`, each as one script in its own directory.
pub(crate) fn run(tidemill: Option<&Path>) -> Result<TestReport> {
    let started = Instant::now();
    let readme = std::fs::read_to_string(shell::root().join("README.md")).context("there is no README.md")?;
    let mut report = TestReport::default();
    for script in blocks(&readme).map(|block| runnable(&block)).filter(|script| !script.trim().is_empty()) {
        let program = tidemill.context("no crate builds the program `tidemill` that the README runs")?;
        match run_block(&script, program) {
            Ok(()) => report.counts.passed += 1,
            Err(error) => {
                report.lines.push(format!("{error:#}"));
                report.counts.failed += 1;
            }
        }
    }
    report.counts.took = started.elapsed();
    Ok(report)
}

fn run_block(script: &str, program: &Path) -> Result<()> {
    let directory = ScratchDir::new()?;
    let programs = program.parent().context("a program without a directory")?.display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(&directory.0).env("PATH", path).stdin(Stdio::null());
    let output = command.output().context("cannot run sh")?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    bail!("this block failed: {}\n{script}\n{}", output.status, String::from_utf8_lossy(&printed))
}

/// The contents of all blocks marked `sh`.
fn blocks(readme: &str) -> impl Iterator<Item = String> + '_ {
    let mut lines = readme.lines();
    std::iter::from_fn(move || {
        lines.find(|line| *line == "```sh")?;
        Some(lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect())
    })
}

/// The block without the skipped command, and with the binary of the tests.
fn runnable(block: &str) -> String {
    let lines = block.lines().filter(|line| !line.starts_with(XTASK_TEST_COMMAND));
    lines.map(|line| line.replace(CARGO_RUN_COMMAND, "tidemill") + "\n").collect()
}

/// A directory that is removed on drop.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tidemill-readme-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // A leftover directory in the temporary directory does no harm.
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

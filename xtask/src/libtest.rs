//! Reading what a test program prints.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// What became of one test program.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    /// How many cases passed in each module that holds a store to the conformance suite.
    pub(crate) modules: BTreeMap<String, usize>,
    pub(crate) took: Duration,
}

impl Tally {
    pub(crate) fn count(&self) -> usize {
        self.passed + self.failed + self.ignored
    }

    /// Takes in one line. Returns whether a reader wants to see it: passing tests are only counted.
    fn take(&mut self, line: &str) -> bool {
        let Some((name, verdict)) = line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... "))
        else {
            return !(line.is_empty() || line.starts_with("running ") || line.starts_with("test result: ok"));
        };
        match verdict.split([',', ' ']).next() {
            Some("ok") => {
                self.passed += 1;
                *self.modules.entry(module_of(name)).or_default() += 1;
                false
            }
            Some("ignored") => {
                self.ignored += 1;
                true
            }
            _ => {
                self.failed += 1;
                true
            }
        }
    }
}

/// `file` of `file::enqueue::a_case`: what is before theme and case.
fn module_of(test: &str) -> String {
    let segments: Vec<_> = test.split("::").collect();
    segments[..segments.len().saturating_sub(2)].join("::")
}

/// What one test program said.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// All but the tests that passed.
    lines: Vec<String>,
}

impl Report {
    pub(crate) fn print(self) -> Tally {
        for line in &self.lines {
            println!("    {line}");
        }
        self.tally
    }
}

/// Runs a test program, counts what passes, and keeps the rest to be shown.
pub(crate) fn run(mut command: Command) -> Result<Report> {
    let begun = Instant::now();
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {command:?}"))?;
    let stdout = child.stdout.take().context("a test program without output")?;
    let mut tally = Tally::default();
    let mut lines = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if tally.take(&line) {
            lines.push(line);
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        lines.push(format!("ended with {status}"));
        tally.failed = 1;
    }
    tally.took = begun.elapsed();
    Ok(Report { tally, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_tests_are_counted_and_the_rest_is_shown() {
        let mut tally = Tally::default();
        let lines = [
            ("running 3 tests", false),
            ("test file::claim::gives_one ... ok", false),
            ("test memory::claim::gives_one ... FAILED", true),
            ("test slow ... ignored, too slow", true),
            ("thread 'x' panicked", true),
            ("test src/lib.rs - testing (line 4) ... ok", false),
            ("test result: ok. 1 passed", false),
        ];
        for (line, is_shown) in lines {
            assert_eq!(tally.take(line), is_shown, "{line}");
        }
        assert_eq!((tally.passed, tally.failed, tally.ignored), (2, 1, 1));
        assert_eq!(tally.modules.get("file"), Some(&1));
    }
}

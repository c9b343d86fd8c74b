//! Parser of the output of a test program.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The counts of one test program.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    /// Passed cases of each module that runs the conformance suite.
    pub(crate) modules: BTreeMap<String, usize>,
    pub(crate) took: Duration,
}

impl TestCounts {
    pub(crate) fn total(&self) -> usize {
        self.passed + self.failed + self.ignored
    }

    /// Parses one line. Returns whether it is to be shown: passed tests are only counted.
    fn read_line(&mut self, line: &str) -> bool {
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

/// `file` of `file::enqueue::a_case`: the path before theme and case.
fn module_of(test: &str) -> String {
    let segments: Vec<_> = test.split("::").collect();
    segments[..segments.len().saturating_sub(2)].join("::")
}

/// The output of one test program.
#[derive(Debug, Default)]
pub(crate) struct TestReport {
    pub(crate) counts: TestCounts,
    /// All lines except those of passed tests.
    pub(crate) lines: Vec<String>,
}

impl TestReport {
    pub(crate) fn print(self) -> TestCounts {
        for line in &self.lines {
            println!("    {line}");
        }
        self.counts
    }
}

/// Runs a test program, counts its tests, and keeps the lines to show.
pub(crate) fn run(mut command: Command) -> Result<TestReport> {
    let started = Instant::now();
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {command:?}"))?;
    let stdout = child.stdout.take().context("a test program has no stdout")?;
    let mut counts = TestCounts::default();
    let mut lines = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if counts.read_line(&line) {
            lines.push(line);
        }
    }
    let status = child.wait()?;
    if !status.success() && counts.failed == 0 {
        lines.push(format!("ended with {status}"));
        counts.failed = 1;
    }
    counts.took = started.elapsed();
    Ok(TestReport { counts, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_tests_are_counted_and_the_rest_is_shown() {
        let mut counts = TestCounts::default();
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
            assert_eq!(counts.read_line(line), is_shown, "{line}");
        }
        assert_eq!((counts.passed, counts.failed, counts.ignored), (2, 1, 1));
        assert_eq!(counts.modules.get("file"), Some(&1));
    }
}

//! The summary of a test run.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::libtest::TestCounts;

/// The counts of all suites.
#[derive(Debug, Default)]
pub(crate) struct TestSummary {
    rows: Vec<(String, String, TestCounts)>,
}

impl TestSummary {
    pub(crate) fn add(&mut self, package: &str, target: &str, counts: TestCounts) {
        self.rows.push((package.to_owned(), target.to_owned(), counts));
    }

    /// Prints the summary; returns an error if a test failed.
    pub(crate) fn print(&self, took: Duration) -> Result<()> {
        println!(
            "\n{:<14} {:<16} {:>7} {:>7} {:>8} {:>9}",
            "crate", "tests", "passed", "failed", "ignored", "time"
        );
        for (package, target, counts) in &self.rows {
            let TestCounts { passed, failed, ignored, took, .. } = counts;
            let took = took.as_secs_f64();
            println!("{package:<14} {target:<16} {passed:>7} {failed:>7} {ignored:>8} {took:>7.1} s");
        }
        for line in self.conformance() {
            println!("{line}");
        }
        let sum = |count: fn(&TestCounts) -> usize| {
            self.rows.iter().map(|(_, _, counts)| count(counts)).sum::<usize>()
        };
        let (passed, failed) = (sum(|counts| counts.passed), sum(|counts| counts.failed));
        println!("\n{passed} passed, {failed} failed in {:.0} s", took.as_secs_f64());
        if failed > 0 {
            bail!("{failed} tests failed in: {}", self.failed_suites().join(", "));
        }
        Ok(())
    }

    /// Passed cases of the conformance suite of each store.
    fn conformance(&self) -> Vec<String> {
        let suites = self.rows.iter().filter(|(_, target, _)| target == "conformance");
        let stores = suites.flat_map(|(package, _, counts)| {
            counts.modules.iter().map(move |(module, cases)| (package, module, cases))
        });
        let line = |(package, module, cases): (&String, &String, &usize)| {
            let store = format!("{package} {}", module.replace('_', " "));
            format!("conformance  {:<24} {cases} cases", store.trim())
        };
        stores.map(line).collect()
    }

    fn failed_suites(&self) -> Vec<String> {
        let failed = self.rows.iter().filter(|(_, _, counts)| counts.failed > 0);
        failed.map(|(package, target, _)| format!("{package} {target}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_per_store() {
        let mut summary = TestSummary::default();
        let modules = [("one_server".to_owned(), 99), ("cluster".to_owned(), 98)].into_iter().collect();
        summary.add("redis", "conformance", TestCounts { modules, ..TestCounts::default() });
        let lines = summary.conformance().join("\n");
        assert!(lines.contains("redis cluster            98 cases"), "{lines}");
        assert!(lines.contains("redis one server         99 cases"), "{lines}");
    }
}

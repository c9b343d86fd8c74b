//! The closing summary of a test run.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::libtest::Tally;

/// What every suite came to.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: Vec<(String, String, Tally)>,
}

impl Summary {
    pub(crate) fn add(&mut self, package: &str, target: &str, tally: Tally) {
        self.rows.push((package.to_owned(), target.to_owned(), tally));
    }

    /// Prints everything; an error if anything failed.
    pub(crate) fn close(&self, took: Duration) -> Result<()> {
        println!(
            "\n{:<14} {:<16} {:>7} {:>7} {:>8} {:>9}",
            "crate", "tests", "passed", "failed", "ignored", "time"
        );
        for (package, target, tally) in &self.rows {
            let Tally { passed, failed, ignored, took, .. } = tally;
            let took = took.as_secs_f64();
            println!("{package:<14} {target:<16} {passed:>7} {failed:>7} {ignored:>8} {took:>7.1} s");
        }
        for line in self.conformance() {
            println!("{line}");
        }
        let sum =
            |count: fn(&Tally) -> usize| self.rows.iter().map(|(_, _, tally)| count(tally)).sum::<usize>();
        let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failed));
        println!("\n{passed} passed, {failed} failed in {:.0} s", took.as_secs_f64());
        if failed > 0 {
            bail!("{failed} tests failed in: {}", self.failed_suites().join(", "));
        }
        Ok(())
    }

    /// How many cases of the conformance suite each store passed.
    fn conformance(&self) -> Vec<String> {
        let suites = self.rows.iter().filter(|(_, target, _)| target == "conformance");
        let stores = suites.flat_map(|(package, _, tally)| {
            tally.modules.iter().map(move |(module, cases)| (package, module, cases))
        });
        let line = |(package, module, cases): (&String, &String, &usize)| {
            let store = format!("{package} {}", module.replace('_', " "));
            format!("conformance  {:<24} {cases} cases", store.trim())
        };
        stores.map(line).collect()
    }

    fn failed_suites(&self) -> Vec<String> {
        let failed = self.rows.iter().filter(|(_, _, tally)| tally.failed > 0);
        failed.map(|(package, target, _)| format!("{package} {target}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_per_store() {
        let mut summary = Summary::default();
        let modules = [("one_server".to_owned(), 99), ("cluster".to_owned(), 98)].into_iter().collect();
        summary.add("redis", "conformance", Tally { modules, ..Tally::default() });
        let lines = summary.conformance().join("\n");
        assert!(lines.contains("redis cluster            98 cases"), "{lines}");
        assert!(lines.contains("redis one server         99 cases"), "{lines}");
    }
}

//! `cargo xtask test`: runs all tests, the fast ones first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};

use crate::libtest::{TestCounts, TestReport};
use crate::suite::{self, Built, Suite, SuiteStage};
use crate::summary::TestSummary;
use crate::{libtest, readme, servers, shell};

/// The tests to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestScope {
    Everything,
    WithoutServers,
}

pub(crate) fn run(scope: TestScope) -> Result<()> {
    let started = Instant::now();
    if scope == TestScope::Everything {
        println!("1. Install: servers, browsers and clients that are missing.");
        servers::install()?;
    }
    println!("2. Build: all tests with all features. From nothing it takes ten minutes on two cores.");
    let mut built = suite::build()?;
    if scope == TestScope::WithoutServers {
        built.suites.retain(|suite| suite.stage == SuiteStage::Fast);
    }
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    println!("3. Run: {} test programs, after {minutes:.1} minutes.", built.suites.len());
    let summary = run_suites(&built)?;
    summary.print(started.elapsed())
}

/// Runs the test programs, the examples of the documentation and the commands of the README.
fn run_suites(built: &Built) -> Result<TestSummary> {
    let progress = Progress { done: AtomicUsize::new(0), total: built.suites.len() + 2 };
    let mut summary = TestSummary::default();
    for stage in built.suites.chunk_by(|a, b| a.stage == b.stage) {
        for (suite, counts) in stage.iter().zip(run_stage(stage, &progress)?) {
            // Every crate has a program for unit tests, even if it has none.
            if counts.total() > 0 {
                summary.add(&suite.package, &suite.target, counts);
            }
        }
    }
    let doc = shell::cargo(&["test", "--workspace", "--all-features", "--doc"]);
    let doc = progress.print("workspace", "documentation", libtest::run(doc)?);
    summary.add("workspace", "documentation", doc);
    let readme = progress.print("workspace", "README", readme::run(built.tidemill.as_deref())?);
    summary.add("workspace", "README", readme);
    Ok(summary)
}

/// How many programs have run, of how many.
struct Progress {
    done: AtomicUsize,
    total: usize,
}

impl Progress {
    /// Prints one line for a program that has ended, and the lines it has to show.
    fn print(&self, package: &str, target: &str, report: TestReport) -> TestCounts {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let TestCounts { passed, failed, took, .. } = &report.counts;
        let took = took.as_secs_f64();
        println!("[{done}/{}] {package} {target}: {passed} passed, {failed} failed, {took:.0} s", self.total);
        report.print()
    }
}

/// Test programs that run concurrently. Most of their time they wait for leases, timers and
/// restarts of servers.
const MAX_CONCURRENT_SUITES: usize = 2;

/// Runs the programs of one stage, a few at a time. Returns their counts, in order.
fn run_stage(suites: &[Suite], progress: &Progress) -> Result<Vec<TestCounts>> {
    let next = AtomicUsize::new(0);
    let all_counts = Mutex::new(vec![None; suites.len()]);
    let runner = || -> Result<()> {
        while let Some((at, suite)) = next_suite(suites, &next) {
            let report = libtest::run(suite.command())?;
            // Locked while printing, so that the lines of two programs do not mix.
            let mut all_counts = all_counts.lock().map_err(|_| anyhow!("another runner panicked"))?;
            all_counts[at] = Some(progress.print(&suite.package, &suite.target, report));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let runners: Vec<_> = (0..MAX_CONCURRENT_SUITES).map(|_| scope.spawn(runner)).collect();
        runners.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a runner panicked"))?)
    })?;
    let all_counts = all_counts.into_inner().map_err(|_| anyhow!("a runner panicked"))?;
    Ok(all_counts.into_iter().flatten().collect())
}

fn next_suite<'a>(suites: &'a [Suite], next: &AtomicUsize) -> Option<(usize, &'a Suite)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, suites.get(at)?))
}

//! `cargo xtask test`: runs all tests, the fast ones first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};

use crate::libtest::TestCounts;
use crate::suite::{self, Suite, SuiteStage};
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
        servers::install()?;
    }
    let built = suite::build()?;
    let mut summary = TestSummary::default();
    let wanted = |stage| scope == TestScope::Everything || stage == SuiteStage::Fast;
    for stage in built.suites.chunk_by(|a, b| a.stage == b.stage).filter(|suites| wanted(suites[0].stage)) {
        for (suite, counts) in stage.iter().zip(run_stage(stage)?) {
            // Every crate has a program for unit tests, even if it has none.
            if counts.total() > 0 {
                summary.add(&suite.package, &suite.target, counts);
            }
        }
    }
    println!("documentation");
    let doc = shell::cargo(&["test", "--workspace", "--all-features", "--doc"]);
    let doc = libtest::run(doc)?.print();
    summary.add("workspace", "documentation", doc);
    summary.add("workspace", "README", readme::run(built.tidemill.as_deref())?);
    summary.print(started.elapsed())
}

/// Test programs that run concurrently. Most of their time they wait for leases, timers and
/// restarts of servers.
const MAX_CONCURRENT_SUITES: usize = 2;

/// Runs the programs of one stage, a few at a time. Returns their counts, in order.
fn run_stage(suites: &[Suite]) -> Result<Vec<TestCounts>> {
    let next = AtomicUsize::new(0);
    let all_counts = Mutex::new(vec![None; suites.len()]);
    let runner = || -> Result<()> {
        while let Some((at, suite)) = next_suite(suites, &next) {
            let report = libtest::run(suite.command())?;
            // Locked while printing, so that the lines of two programs do not mix.
            let mut all_counts = all_counts.lock().map_err(|_| anyhow!("another runner panicked"))?;
            println!("{} {} ({:.0} s)", suite.package, suite.target, report.counts.took.as_secs_f64());
            all_counts[at] = Some(report.print());
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

//! `cargo xtask test`: every test there is, the fast ones first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};

use crate::libtest::Tally;
use crate::suite::{self, Stage, Suite};
use crate::summary::Summary;
use crate::{libtest, readme, servers, shell};

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    WithoutServers,
}

pub(crate) fn run(scope: Scope) -> Result<()> {
    let begun = Instant::now();
    if scope == Scope::Everything {
        servers::install()?;
    }
    let built = suite::build()?;
    let mut summary = Summary::default();
    let wanted = |stage| scope == Scope::Everything || stage == Stage::Fast;
    for stage in built.suites.chunk_by(|a, b| a.stage == b.stage).filter(|suites| wanted(suites[0].stage)) {
        for (suite, tally) in stage.iter().zip(run_stage(stage)?) {
            // Every crate has a program for its unit tests, whether it has any or not.
            if tally.count() > 0 {
                summary.add(&suite.package, &suite.target, tally);
            }
        }
    }
    println!("documentation");
    let doc = shell::cargo(&["test", "--workspace", "--all-features", "--doc"]);
    let doc = libtest::run(doc)?.print();
    summary.add("workspace", "documentation", doc);
    summary.add("workspace", "README", readme::run(built.tidemill.as_deref())?);
    summary.close(begun.elapsed())
}

/// How many test programs run at a time. Most of their time they wait for leases, timers and restarts of servers.
const AT_ONCE: usize = 2;

/// Runs the programs of one stage, a few at a time. Returns what they came to, in their order.
fn run_stage(suites: &[Suite]) -> Result<Vec<Tally>> {
    let next = AtomicUsize::new(0);
    let tallies = Mutex::new(vec![None; suites.len()]);
    let runner = || -> Result<()> {
        while let Some((at, suite)) = take(suites, &next) {
            let report = libtest::run(suite.command())?;
            // Held while printing, so that the lines of two programs do not mix.
            let mut tallies = tallies.lock().map_err(|_| anyhow!("another runner panicked"))?;
            println!("{} {} ({:.0} s)", suite.package, suite.target, report.tally.took.as_secs_f64());
            tallies[at] = Some(report.print());
        }
        Ok(())
    };
    thread::scope(|scope| {
        let runners: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(runner)).collect();
        runners.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a runner panicked"))?)
    })?;
    let tallies = tallies.into_inner().map_err(|_| anyhow!("a runner panicked"))?;
    Ok(tallies.into_iter().flatten().collect())
}

fn take<'a>(suites: &'a [Suite], next: &AtomicUsize) -> Option<(usize, &'a Suite)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, suites.get(at)?))
}
